"""Fine-tunings of finished runs: on all training images, measured like the run, kept, cancelled and gone on with."""

import json
import shutil

import pytest
import torch

from retrofit_core.cli import main
from retrofit_core.data import load
from retrofit_core.networks.architectures import build
from retrofit_core.networks.checkpoints import load_model, read_tensors, save_model
from retrofit_core.runs import RunConfig, execute
from retrofit_core.runs.finetunings import (
    CURVE,
    METRICS,
    TUNED,
    FinetuneConfig,
    finetune_run,
    plan_finetuning,
    read_run_to_tune,
    read_tuned,
)
from retrofit_core.runs.store import notes_of
from retrofit_core.system.monitor import Cancelled, Monitor
from retrofit_core.training.evaluation import ensemble, evaluate

MLP = {"architecture": "mlp", "sizes": [64, 12, 10]}
SHORT = FinetuneConfig(epochs=2, precision="float32")


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """A measured run of two networks that nobody trained; its file names are relative to its folder's parent."""
    folder = tmp_path_factory.mktemp("runs")
    for index, name in enumerate(("a", "b")):
        save_model(build(MLP, seed=index), folder / f"{name}.safetensors")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        models = ("a.safetensors", "b.safetensors")
        config = RunConfig(models, fusion_from="iid", method="KF-Linear", samples=60, device="cpu", evaluate=True)
        execute(config, "run")
    return folder / "run"


def planned(record, config=SHORT):
    return plan_finetuning(config, *read_run_to_tune(record, record.parent))


@pytest.fixture(scope="module")
def done(record, tmp_path_factory):
    """The folder of a finished fine-tuning."""
    folder = tmp_path_factory.mktemp("tuned") / "new" / "folder"
    finetune_run(planned(record), folder, device="cpu")
    return folder


def curve(folder):
    return json.loads((folder / CURVE).read_text())


def test_all_training_images_are_taken_and_the_metrics_are_those_of_the_test_split(record, done):
    whole, test = load("digits", "train"), load("digits", "test")
    model, metadata = load_model(done / TUNED)
    assert metadata["rows"]["count"] == len(whole) == curve(done)["trained"] + curve(done)["held_out"]
    metrics = json.loads((done / METRICS).read_text())
    assert metrics == evaluate(model, test)
    of_run = json.loads((record / "metrics.json").read_text())["networks"]["fused"]
    assert metrics.keys() == of_run.keys() and metrics["samples"] == of_run["samples"]
    assert torch.equal(next(read_tuned(done).parameters()), next(model.parameters()))


def test_parents_ensemble_and_start_are_measured_on_the_images_that_are_held_out(record, done):
    plan = planned(record)
    networks = {"parent 0": plan.run.parents[0], "ensemble": ensemble(plan.run.parents), "fused": plan.run.fused}
    seen = curve(done)["networks"]
    for name, network in networks.items():
        assert seen[name] == evaluate(network, plan.images, rows=plan.held_out)
    history = curve(done)["history"]
    assert [entry["epoch"] for entry in history] == [0, 1, 2]
    assert history[0]["accuracy"] == seen["fused"]["accuracy"]  # the trainer holds out the same images


def test_what_was_stopped_goes_on_to_the_same_network(record, done, tmp_path):
    events = []
    monitor = Monitor(events.append, lambda: sum(event["kind"] == "epoch" for event in events) == 1)
    with pytest.raises(Cancelled):
        finetune_run(planned(record), tmp_path / "part", device="cpu", monitor=monitor)
    assert [entry["epoch"] for entry in curve(tmp_path / "part")["history"]] == [0, 1]
    with pytest.raises(ValueError, match="not finished"):
        read_tuned(tmp_path / "part")
    with pytest.raises(ValueError, match="--resume"):
        finetune_run(planned(record), tmp_path / "part", device="cpu")
    finetune_run(planned(record), tmp_path / "part", device="cpu", resume=True)
    whole, part = (read_tensors(folder / TUNED) for folder in (done, tmp_path / "part"))
    assert whole.keys() == part.keys() and all(torch.equal(whole[name], part[name]) for name in whole)
    assert curve(tmp_path / "part")["history"] == curve(done)["history"]


# --- the command ----------------------------------------------------------------------------------


def test_the_command_keeps_it_where_the_workbench_looks_for_it(record, monkeypatch, capsys):
    monkeypatch.chdir(record.parent)
    words = ["train", "--record", "run", *SHORT.words(), "--device", "cpu"]
    assert main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    folder = record / "finetunings" / SHORT.key(record)
    assert said["out"] == f"run/finetunings/{folder.name}/{TUNED}"
    assert said["networks"]["before"] == json.loads((record / "metrics.json").read_text())["networks"]["fused"]
    assert said["networks"]["after"] == json.loads((folder / METRICS).read_text())
    assert FinetuneConfig.from_json(json.loads((folder / "settings.json").read_text())) == SHORT
    assert notes_of(folder) == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--record", "run", "--parts", "3"], "--record determines the networks and the data: omit --parts"),
        (["--record", "nothing"], "nothing is not the record of a finished run"),
        (["--record", "run", "--epochs", "3", "--learning-rate", "-1"], "learning_rate is -1.0"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(record, words, message, monkeypatch, capsys):
    monkeypatch.chdir(record.parent)
    assert main(["train", *words]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_a_run_whose_parents_have_changed_is_refused_and_the_reason_noted(record, tmp_path, monkeypatch, capsys):
    shutil.copytree(record.parent, tmp_path / "runs")
    monkeypatch.chdir(tmp_path / "runs")
    save_model(build(MLP, seed=7), "a.safetensors")
    assert main(["train", "--record", "run", *SHORT.words(), "--device", "cpu", "--out", "tuned"]) == 2
    assert "run cannot be used: one of its files has changed" in notes_of(tmp_path / "runs" / "tuned")["error"]
    capsys.readouterr()
