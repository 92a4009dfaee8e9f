"""Run records: written whole, run again where they stopped, never half-used."""

import dataclasses
import json
import os
import shutil
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from retrofit_core import runs
from retrofit_core.baselines import average
from retrofit_core.data import load
from retrofit_core.data.splits import sharded
from retrofit_core.inspection import analysis
from retrofit_core.networks.checkpoints import load_model, save_model
from retrofit_core.runs.parents import train_parents, write_training
from retrofit_core.runs.store import notes_of
from retrofit_core.system import files
from retrofit_core.system.monitor import Cancelled, Monitor
from retrofit_core.training.config import TrainConfig
from retrofit_core.training.evaluation import ensemble, evaluate
from tests.networks import digits_parents


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Two untrained digits networks with the splits of a sharded pair."""
    return runs.RunConfig(
        **digits_parents(tmp_path_factory.mktemp("parents")),
        method="KF-Linear",
        importance="conductance",
        samples=60,
        importance_samples=40,
    )


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_a_finished_record_reads_back(config, tmp_path):
    result, _ = runs.execute(dataclasses.replace(config, evaluate=True), tmp_path / "run")
    run = runs.read_run(tmp_path / "run")
    assert run.state == "done"
    assert [level.name for level in run.levels] == [level.name for level in result.levels]
    for level, saved in zip(result.levels, run.levels, strict=True):
        assert torch.equal(level.labels, saved.labels)
        assert saved.grouping_error == level.grouping_error
        assert torch.equal(level.gram, saved.gram)
    assert set(run.metrics["networks"]) == {"parent 0", "parent 1", "ensemble", "average", "fused"}
    model, metadata = load_model(tmp_path / "run" / "fused.safetensors")
    assert torch.equal(weights(model), weights(result.model))
    assert metadata["mean"] == [load("digits").mean[0]]
    assert metadata["recipe"]["models"] == ["parent-0.safetensors", "parent-1.safetensors"]


@pytest.mark.slow
def test_a_finished_run_is_read_instead_of_fused_again_unless_it_is_damaged(config, tmp_path):
    config, events = dataclasses.replace(config, evaluate=True), []
    first, metrics = runs.execute(config, tmp_path / "run")
    again, same = runs.execute(config, tmp_path / "run", Monitor(events.append))
    assert not events and same == metrics and torch.equal(weights(again.model), weights(first.model))
    with pytest.raises(ValueError, match="holds another run"):
        runs.execute(dataclasses.replace(config, samples=50), tmp_path / "run")
    (tmp_path / "run" / "metrics.json").write_text("{")
    assert (
        runs.execute(config, tmp_path / "run", Monitor(events.append))[1]["networks"].keys()
        == metrics["networks"].keys()
    )
    assert events and runs.read_run(tmp_path / "run").state == "done"


def test_every_network_is_measured_as_itself(config):
    _, metrics = runs.execute(dataclasses.replace(config, evaluate=True))
    parents, test = runs.read_inputs(config).models, load("digits", "test")
    networks = {f"parent {index}": parent for index, parent in enumerate(parents)}
    networks |= {"average": average(parents), "ensemble": ensemble(parents)}
    for name, network in networks.items():
        assert metrics["networks"][name]["loss"] == pytest.approx(evaluate(network, test)["loss"]), name


def test_a_target_named_by_a_spec_is_fitted_to_the_data(config):
    """Grey images of 8 x 8 and ten classes, which the spec does not say."""
    config = dataclasses.replace(config, target='{"architecture": "cnn", "widths": [3, 5, 6]}', importance="uniform")
    result, _ = runs.execute(config)
    assert [level.width for level in result.levels] == [3, 5, 6, 10]


def test_a_failed_run_says_why(config, tmp_path):
    broken = dataclasses.replace(config, samples=10_000_000)
    with pytest.raises(ValueError, match="cannot be drawn"):
        runs.execute(broken, tmp_path / "run")
    status = runs.read_status(tmp_path / "run")
    assert status["state"] == "failed" and "cannot be drawn" in status["error"]
    runs.execute(config, tmp_path / "run")  # the folder is free for other settings
    assert runs.read_run(tmp_path / "run").config == config and runs.read_status(tmp_path / "run")["state"] == "done"


@pytest.mark.slow
@pytest.mark.parametrize("stopped", ["cancelled", "arrays.npz", "fused.safetensors", "status.json"])
def test_a_run_that_stopped_keeps_nothing_and_is_run_again(config, tmp_path, stopped, monkeypatch):
    """Cancelled in its second level, or killed while it wrote that file: no level is shown, and the numbers are a whole run's."""

    class Killed(BaseException):
        pass

    def cancel(event):
        if stopped == "cancelled" and event["kind"] == "level" and event["index"] == 1:
            raise Cancelled

    sealed = []

    def replace(source, target):
        sealed.append(Path(target).name == "fused.safetensors")
        if Path(target).name == stopped and (stopped != "status.json" or any(sealed)):
            raise Killed
        os.rename(source, target)

    whole, _ = runs.execute(config)
    with monkeypatch.context() as patched, pytest.raises((Cancelled, Killed)):
        if stopped != "cancelled":
            patched.setattr(os, "replace", replace)
            patched.setattr("retrofit_core.runs.record.Recorder.stop", lambda *_: None)  # a killed process says nothing
        runs.execute(config, tmp_path / "run", Monitor(cancel))
    left = runs.read_run(tmp_path / "run")
    assert left.state == ("cancelled" if stopped == "cancelled" else "interrupted") and not left.levels
    assert not list((tmp_path / "run").glob("*.tmp"))
    events = []
    again, _ = runs.execute(dataclasses.replace(config, seed=config.seed), tmp_path / "run", Monitor(events.append))
    assert sum(event["kind"] == "level" for event in events) == len(whole.levels)
    assert torch.equal(weights(again.model), weights(whole.model))
    assert runs.read_run(tmp_path / "run").state == "done"


@pytest.mark.slow
def test_a_second_writer_of_a_record_is_refused(config, tmp_path):
    refusals = []

    def begin_again(event):
        if event["kind"] == "level" and event["index"] == 1:
            with pytest.raises(files.Locked) as refused:
                runs.execute(config, tmp_path / "run")
            refusals.append(str(refused.value))

    runs.execute(config, tmp_path / "run", Monitor(begin_again))
    assert refusals and f"is being written by the process {os.getpid()}" in refusals[0]
    run = runs.read_run(tmp_path / "run")
    assert run.state == "done" and len(run.levels) == 4
    with files.locked(tmp_path / "run"), pytest.raises(files.Locked):
        runs.analyse_record(tmp_path / "run")


# --- a run is known by what its files hold -----------------------------------------------------------------------------


@pytest.fixture
def copied_inputs(config, tmp_path):
    """The config with parents and splits of its own, which a test may overwrite."""
    return dataclasses.replace(
        config,
        models=tuple(str(shutil.copy(model, tmp_path)) for model in config.models),
        splits=str(shutil.copy(config.splits, tmp_path)),
    )


def train_again(path):
    """Another network of the same architecture in the same file."""
    model, metadata = load_model(path)
    torch.manual_seed(5)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    save_model(model, path, **metadata)


def test_a_finished_record_is_not_overwritten_with_the_numbers_of_other_parents(copied_inputs, tmp_path):
    runs.execute(copied_inputs, tmp_path / "run")
    train_again(copied_inputs.models[0])
    with pytest.raises(ValueError, match="files have changed since"):
        runs.execute(copied_inputs, tmp_path / "run")
    with pytest.raises(ValueError, match="cannot be used: one of its files has changed"):
        runs.analyse_record(tmp_path / "run")
    assert runs.read_run(tmp_path / "run").analysis is None


def test_names_do_not_make_a_run_another_one_and_contents_do(copied_inputs, tmp_path):
    config = copied_inputs
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = dataclasses.replace(
        config,
        models=tuple(str(shutil.copy(model, elsewhere)) for model in config.models),
        splits=str(shutil.copy(config.splits, elsewhere / "rows.json")),
    )
    relative = dataclasses.replace(moved, models=tuple(Path(model).name for model in moved.models), splits="rows.json")
    known = runs.identity(config)
    assert known.key() == runs.identity(moved).key() == runs.identity(relative, elsewhere).key()
    Path(moved.splits).write_text(Path(moved.splits).read_text() + " ")
    renamed = dataclasses.replace(config, models=(config.models[0], str(shutil.copy(config.models[1], tmp_path / "b"))))
    for other in (moved, dataclasses.replace(config, seed=1), renamed):  # the splits file names the checkpoints
        assert runs.identity(other).key() != known.key()
    train_again(config.models[0])
    assert not known.matches(runs.identity(config))
    Path(config.models[0]).unlink()
    assert known.matches(runs.identity(config))  # what is missing has not changed


def test_data_are_known_by_their_files(tmp_path):
    """Those of the splits that a run reads."""
    folder = tmp_path / "mnist"
    folder.mkdir()

    def keys(**files: bytes) -> tuple[str, str]:
        for name, content in files.items():
            (folder / name.replace("_", "-")).write_bytes(content)
        config = runs.RunConfig(models=("a",), data=str(folder))
        return runs.identity(config).key(), runs.identity(dataclasses.replace(config, evaluate=True)).key()

    train, test = "train_{}_ubyte", "t10k_{}_ubyte"
    names = [each.format(kind) for each in (train, test) for kind in ("images-idx3", "labels-idx1")]
    fusing, measuring = keys(**dict.fromkeys(names, b"first"))
    assert keys(README=b"of no meaning") == (fusing, measuring)
    other = keys(**{names[2]: b"other"})
    assert other[0] == fusing and other[1] != measuring
    assert keys(**{names[1]: b"other"})[0] != fusing


def test_a_record_of_another_version_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"schema": 2, "config": {"models": ["a"]}, "inputs": {}}))
    with pytest.raises(ValueError, match=r"another version wrote this record\. Run it again into a new folder"):
        runs.read_run(tmp_path)


@pytest.mark.slow
def test_a_record_keeps_how_its_parents_were_trained(wanted, tmp_path):
    """The note beside the parents may be that of a later training, which the run never used."""
    training, config = wanted
    runs.execute(config, "run")
    write_training(dataclasses.replace(training, epochs=9), training.folder)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["training"] == training.to_json()


@pytest.mark.parametrize("facts", [{}, {"models": ["a"], "colour": "red"}, [], None])
def test_a_config_with_unknown_or_missing_fields_is_refused(facts):
    with pytest.raises(ValueError, match="config"):
        runs.RunConfig.from_json(facts)


def test_without_splits_open_choices_are_refused_not_guessed(config):
    bare = dataclasses.replace(config, splits=None)
    with pytest.raises(ValueError, match="--fusion-from iid"):
        runs.read_inputs(bare)
    with pytest.raises(ValueError, match="--importance-data fusion"):
        runs.read_inputs(dataclasses.replace(bare, fusion_from="iid"))
    inputs = runs.read_inputs(dataclasses.replace(bare, fusion_from="iid", importance_data="fusion"))
    assert inputs.importance == "fusion"


def test_fusion_samples_come_from_parent_0_or_from_all(config):
    images = load("digits", "train")
    first = set(images.labels[sharded(images.labels, 2)[0]].tolist())
    assert set(runs.read_inputs(config).fusion[1].tolist()) == first
    everything = runs.read_inputs(dataclasses.replace(config, fusion_from="iid"))
    assert set(everything.fusion[1].tolist()) == set(range(10))


# --- parents that a run trains itself ---------------------------------------------------------------------------------


@pytest.fixture
def wanted(tmp_path, monkeypatch):
    """A run whose parents are not there, only the note that says how to train them."""
    training = TrainConfig(arch=('{"architecture": "cnn", "widths": [4, 6, 6]}',), epochs=3, device="cpu")
    monkeypatch.chdir(tmp_path)
    (tmp_path / training.folder).mkdir()
    write_training(training, training.folder)
    return training, runs.RunConfig(
        models=training.files(), splits=training.splits(), method="KF-Linear", samples=60, device="cpu"
    )


@pytest.mark.slow
def test_missing_parents_are_trained_and_the_status_tells_of_it(wanted, tmp_path):
    training, config = wanted
    statuses = []
    watch = Monitor(lambda event: statuses.append(json.loads((tmp_path / "run" / "status.json").read_text())))
    with patch("retrofit_core.runs.record.INTERVAL", 0):
        runs.execute(config, "run", watch)
    training_statuses = [status for status in statuses if status.get("stage") == "training" and "epoch" in status]
    assert {(status["parent"], status["parents"], status["epochs"]) for status in training_statuses} == {
        (0, 2, 3),
        (1, 2, 3),
    }
    assert {status["epoch"] for status in training_statuses} == {1, 2, 3}
    status = runs.read_status("run")
    assert status["state"] == "done" and "parent" not in status
    kinds = {json.loads(line)["kind"] for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()}
    assert "batch" not in kinds and "epoch" in kinds
    train_parents(training, "straight")
    for file in training.files():
        left, right = (load_model(folder)[0] for folder in (file, tmp_path / "straight" / Path(file).name))
        assert torch.equal(weights(left), weights(right))


def test_a_parent_that_nothing_can_train_is_named(wanted):
    training, config = wanted
    with pytest.raises(ValueError, match="there is no checkpoint at nowhere"):
        runs.execute(
            dataclasses.replace(config, models=("nowhere/parent-0.safetensors",), splits=None, fusion_from="iid")
        )
    (Path(training.folder) / "training.json").write_text("{")
    with pytest.raises(ValueError, match=r"training.json cannot be used"):
        runs.execute(config)


# --- the analysis ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def analysed(config, tmp_path_factory):
    """A finished record with its analysis, and the events of the run."""
    folder, events = tmp_path_factory.mktemp("analysed") / "run", []
    runs.execute(dataclasses.replace(config, analyse=True, evaluate=True), folder, Monitor(events.append))
    return folder, events


@pytest.mark.slow
def test_an_analysed_run_keeps_its_analysis(analysed):
    folder, events = analysed
    run = runs.read_run(folder)
    assert run.state == "done" and run.analysis is run.analysis  # read once
    assert run.analysis.accuracy[0] == run.metrics["networks"]["ensemble"]["accuracy"]
    assert run.analysis.accuracy[-1] == run.metrics["networks"]["fused"]["accuracy"]
    for level, report in zip(run.analysis.levels, run.levels, strict=True):
        assert torch.equal(level.scores["conductance"], report.scores)
    started = [event["name"] for event in events if event["kind"] == "phase"]
    assert started.index("analysis: uniform") > started.index("fit")


@pytest.mark.slow
def test_analysing_a_finished_record_gives_what_the_run_itself_would_have(config, analysed, tmp_path):
    runs.execute(config, tmp_path / "run")
    bare = runs.read_run(tmp_path / "run")
    assert bare.analysis is None
    added = runs.analyse_record(tmp_path / "run")
    again = runs.read_run(tmp_path / "run")
    assert again.state == "done" and again.config == config
    expected = runs.read_run(analysed[0]).analysis
    assert added.accuracy == again.analysis.accuracy == expected.accuracy
    for ours, theirs in zip(again.analysis.levels, expected.levels, strict=True):
        assert all(torch.equal(ours.labels[name], theirs.labels[name]) for name in theirs.labels)
        assert torch.equal(ours.outputs, theirs.outputs)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cancelled", "refused"])
def test_a_fusion_is_kept_whatever_becomes_of_its_analysis(config, tmp_path, how, monkeypatch):
    """Of that in the run itself, and of a later one, which notes how it ended."""
    folder = tmp_path / "run"

    def cancel(event):
        if how == "cancelled" and event["kind"] == "phase" and event["name"] == "analysis: levels":
            (folder / "cancel").touch()

    def refuse(*_, **__):
        raise ValueError("refused for a test")

    with monkeypatch.context() as patched:
        if how == "refused":
            patched.setattr(analysis, "analyse", refuse)
        result, _ = runs.execute(dataclasses.replace(config, analyse=True), folder, Monitor(cancel))
        run, before = runs.read_run(folder), (folder / "status.json").read_bytes()
        assert run.state == "done" and run.analysis is None
        assert notes_of(folder)["state"] == ("failed" if how == "refused" else how)
        assert torch.equal(weights(load_model(folder / "fused.safetensors")[0]), weights(result.model))
        with pytest.raises(Cancelled if how == "cancelled" else ValueError):
            runs.analyse_record(folder, Monitor(cancel))
        notes = json.loads((folder / "analysing.json").read_text())
        assert (notes["state"], notes["error"]) in (("cancelled", ""), ("failed", "refused for a test"))
        assert (folder / "status.json").read_bytes() == before and not (folder / "cancel").exists()
    runs.analyse_record(folder)
    run = runs.read_run(folder)
    assert run.analysis is not None and not (folder / "analysing.json").exists()


def test_what_cannot_be_analysed_is_refused(config, tmp_path):
    with pytest.raises(ValueError, match="name the record's folder"):
        runs.execute(dataclasses.replace(config, analyse=True))
    with pytest.raises(Cancelled):
        runs.execute(config, tmp_path / "run", Monitor(cancelled=lambda: True))
    with pytest.raises(ValueError, match="the run is cancelled.*retrofit fuse --record"):
        runs.analyse_record(tmp_path / "run")
    with pytest.raises(ValueError, match="not a run record"):
        runs.analyse_record(tmp_path / "nowhere")


# --- baselines in runs -------------------------------------------------------------------------------------------------


def test_regmean_reads_each_parents_own_rows(config):
    """By default where there are splits; the fusion samples where there are none, or where they are asked for."""
    regmean = dataclasses.replace(config, method="RegMean", importance="uniform")
    samples = runs.read_inputs(regmean).importance
    images = load("digits", "train")
    for (x, y), part in zip(samples, sharded(images.labels, 2), strict=True):
        assert x.shape == (40, 1, 8, 8) and set(y.tolist()) == set(images.labels[part].tolist())
    result, _ = runs.execute(regmean)
    assert result.config["own_data"] and result.config["samples"] == [40, 40]
    bare = dataclasses.replace(regmean, splits=None, fusion_from="iid")
    pooled, _ = runs.execute(dataclasses.replace(regmean, importance_data="fusion"))
    assert not pooled.config["own_data"] and pooled.config["samples"] == [60, 60]
    with pytest.raises(ValueError, match="RegMean reads each parent's own training rows.*--splits"):
        runs.execute(dataclasses.replace(bare, importance_data="own"))
