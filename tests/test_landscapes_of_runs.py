"""Landscapes of finished runs: known by settings and content, kept while they grow, taken up from any folder."""

import dataclasses
import json
import shlex
import shutil

import pytest
import torch

from retrofit_core.cli import main
from retrofit_core.data import load
from retrofit_core.inspection.landscape import Landscape, Survey, keep
from retrofit_core.networks.architectures import build
from retrofit_core.networks.checkpoints import load_model, save_model
from retrofit_core.runs import RunConfig, execute
from retrofit_core.runs.landscapes import LandscapeConfig, material_of
from retrofit_core.runs.store import content_of, notes_of
from retrofit_core.system.monitor import Cancelled, Monitor
from retrofit_core.training.evaluation import evaluate

MLP = {"architecture": "mlp", "sizes": [64, 8, 6, 10]}
THROUGH = ("parent 0", "parent 1", "fused")
TINY = Landscape(resolution=3, images=40, path_points=3, directions=2)
CONFIG = LandscapeConfig(THROUGH, None, TINY)


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """A run whose file names are relative to its folder's parent."""
    folder = tmp_path_factory.mktemp("runs")
    for index, name in enumerate(("a", "b")):
        save_model(build(MLP, seed=index), folder / f"{name}.safetensors")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        config = RunConfig(
            ("a.safetensors", "b.safetensors"), fusion_from="iid", method="KF-Linear", samples=60, device="cpu"
        )
        execute(config, "run")
    return folder / "run"


def planned(record):
    material = material_of(record, base=record.parent)
    return TINY.plan(material.networks, THROUGH, material.images(), device="cpu")


def surveys(record, monitor=None):
    return TINY.run(planned(record), monitor)


def test_the_key_changes_with_what_changes_numbers_and_not_with_a_clip(record, tmp_path):
    def key(**changes):
        return dataclasses.replace(CONFIG, landscape=dataclasses.replace(TINY, **changes)).key(record)

    assert key() == CONFIG.key(record) == key(clip=4.6)
    others = [key(seed=1), key(resolution=5), key(images=41), dataclasses.replace(CONFIG, align="OTFusion").key(record)]
    assert len({key(), *others}) == 5
    copy = shutil.copytree(record, tmp_path / "copy")
    assert CONFIG.key(copy) == key()
    status = json.loads((copy / "status.json").read_text())
    status["checksums"]["fused.safetensors"] = "another network"
    (copy / "status.json").write_text(json.dumps(status))
    assert CONFIG.key(copy) != key()
    with pytest.raises(ValueError, match="not the record of a finished run"):
        content_of(tmp_path)


def test_networks_and_images_are_found_from_any_folder(record, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    material = material_of(record, base=record.parent)
    assert list(material.networks) == ["parent 0", "parent 1", "average", "fused"]
    expected = load_model(record.parent / "a.safetensors")[0].state_dict()
    for name, tensor in material.networks["parent 0"].state_dict().items():
        assert torch.equal(tensor, expected[name])
    assert len(material.images()) == 359


def test_what_is_measured_before_a_cancellation_is_kept(record, tmp_path):
    steps = []
    monitor = Monitor(lambda event: steps.append(event), lambda: sum(step["kind"] == "step" for step in steps) > 4)
    with pytest.raises(Cancelled):
        keep(surveys(record, monitor), tmp_path)
    kept = Survey.load(tmp_path)
    assert 0 < kept.done < kept.total and len(kept.markers) == 4


def test_a_file_called_cancel_stops_the_command_and_a_failure_is_noted(record, monkeypatch, capsys):
    monkeypatch.chdir(record.parent)
    out = record.parent / "stopped"
    out.mkdir()
    (out / "cancel").touch()
    words = ["landscape", "--record", "run", *CONFIG.words(), "--device", "cpu", "--out", str(out)]
    assert main(words) == 130
    assert notes_of(out)["state"] == "cancelled" and not (out / "cancel").exists()
    assert main([*words, "--images", "5000"]) == 2
    assert "Ask for no more" in notes_of(out)["error"] and (out / "settings.json").exists()
    capsys.readouterr()


# --- the fine-tuned network -----------------------------------------------------------------------


def test_the_fine_tuned_network_is_among_the_networks(record, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(record.parent)
    assert (
        main(["train", "--record", "run", "--epochs", "1", "--device", "cpu", "--out", "run/finetunings/0123456789"])
        == 0
    )
    through = ("parent 0", "fused", "fine-tuned")
    with_tuned = dataclasses.replace(CONFIG, through=through, tuned="0123456789")
    assert with_tuned.key(record) != dataclasses.replace(with_tuned, tuned="9876543210").key(record)
    assert LandscapeConfig.from_json(json.loads(json.dumps(with_tuned.to_json()))) == with_tuned
    words = with_tuned.command("run").split("retrofit ")[1]
    assert words.endswith("--tuned run/finetunings/0123456789")
    save_model(build(MLP, seed=5), "run/finetunings/0123456789/tuned.safetensors")  # that of one epoch may be the start
    assert main([*shlex.split(words), "--device", "cpu", "--out", str(tmp_path)]) == 0
    names = [marker.name for marker in Survey.load(tmp_path).markers]
    assert names == ["parent 0", "fused", "fine-tuned", "parent 1", "average"]
    settings = json.loads((tmp_path / "settings.json").read_text())
    assert LandscapeConfig.from_json(settings) == with_tuned and settings["of"] == content_of(record)
    assert notes_of(tmp_path) == {}


# --- the command ----------------------------------------------------------------------------------


SMALL = ("--record", "run", "--resolution", "3", "--path-points", "3", "--directions", "3", "--device", "cpu")


@pytest.fixture
def said(record, monkeypatch, capsys):
    """What the command prints, and its exit code."""
    monkeypatch.chdir(record.parent)
    monkeypatch.setenv("COLUMNS", "150")

    def call(*words):
        code = main(["landscape", *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return call


@pytest.mark.slow
def test_a_run_is_surveyed_printed_and_written(said, record):
    """The loss of a network is that of `evaluate` on all images."""
    test = load("digits", "test")
    more = ("--align", "git-re-basin", "--clip", "2.4", "--images", str(len(test)))
    code, text = said(*SMALL, *more, "--out", "out", "--json")
    assert code == 0, text
    survey = Survey.load(record.parent / "out")
    assert json.loads(text)["loss"] == survey.to_json()["loss"]
    names = ["parent 0", "parent 1", "fused", "aligned parent 1", "average"]
    assert [marker.name for marker in survey.markers] == names and survey.done == survey.total
    for marker, file in zip(survey.markers, ("a", "b", "run/fused"), strict=False):
        expected = evaluate(load_model(f"{file}.safetensors")[0], test)
        assert marker.loss == pytest.approx(expected["loss"], rel=1e-5)
        assert marker.accuracy == pytest.approx(expected["accuracy"])
    code, text = said(*SMALL, "--images", "40", "--through", "parent 0, aligned parent 1, fused", "--align", "otfusion")
    assert code == 0 and "The plane through parent 0, aligned parent 1 and fused" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["run", "--through", "parent 0, parent 1"],
            "a plane needs three different networks. Found parent 0, parent 1",
        ),
        (["run", "--through", "parent 0, parent 1, average"], "are on one line"),
        (["nothing"], "nothing is not a run record"),
        (["run", "--tuned", "run/finetunings/gone"], "there is no fine-tuning gone"),
    ],
)
def test_what_cannot_be_surveyed_is_refused(said, words, message):
    code, text = said("--record", *words)
    assert code == 2 and message in text.replace("\n", " "), text
