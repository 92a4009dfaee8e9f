"""The runner in one process: what is planned, measured again, refused, left for want of time."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from retrofit_core.experiments import work as working
from retrofit_core.experiments.results import measured_in, read_result
from retrofit_core.experiments.runner import plan, waves
from retrofit_core.experiments.units import FineTuning, Fusion, Parent, TunedEnsemble
from retrofit_core.experiments.work import work
from retrofit_core.system import files
from retrofit_core.system.monitor import Cancelled, Monitor
from tests.experiments.tiny import (
    SOURCE,
    UNITS,
    all_numbers,
    carry_out,
    cell,
    fusion,
    logged,
    missing,
    numbers,
    read_log,
)

pytestmark = pytest.mark.slow


TRAINING = SOURCE.training


PARENTS = (Parent(SOURCE, 0, 100), Parent(SOURCE, 1, 100))


TUNING = UNITS[-1]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A runs folder with every unit done; not to be changed."""
    root = tmp_path_factory.mktemp("measured") / "runs"
    outcome = carry_out(root)
    assert (outcome.done, outcome.failed) == (7, [])
    return root


@pytest.fixture
def root(measured, tmp_path):
    """A copy of it."""
    shutil.copytree(measured, tmp_path / "runs")
    return tmp_path / "runs"


def begun(root):
    return [key for _, what, key in read_log(root) if what == "begun"]


def test_what_is_needed_comes_first_and_each_unit_once(tmp_path):
    units = [unit for unit, _ in plan([cell(TUNING), cell(fusion()), cell(fusion("Average"), TUNING)], tmp_path)]
    assert units == [*PARENTS, fusion(), TUNING, fusion("Average")]


def test_each_unit_is_in_one_wave_after_those_that_it_needs():
    ensemble = TunedEnsemble(tuple(FineTuning(parent, 1) for parent in PARENTS))
    units = [unit for unit, _ in plan([cell(ensemble), cell(TUNING)], Path("none"))]
    first, second, third = waves(units)
    assert first == list(PARENTS) and second == [*ensemble.members, TUNING.start] and third == [ensemble, TUNING]


def test_results_outlive_what_they_were_made_of(measured, root, tmp_path):
    """Carried to another machine, they are still good; what is new trains the parents again."""
    shutil.rmtree(root / TRAINING.folder)
    for network in root.glob("experiments/*/*.safetensors"):
        network.unlink()
    assert not missing(UNITS, root)
    new = fusion(seed=5)
    outcome = carry_out(root, [new])
    assert (outcome.done, outcome.failed) == (1, [])
    assert all(Path(file).exists() for file in SOURCE.files(root))
    whole = tmp_path / "whole" / "runs"
    shutil.copytree(measured, whole)
    carry_out(whole, [new])
    assert all_numbers(root) == all_numbers(whole)


def refused(seed):
    """A pair of one."""
    return dataclasses.replace(fusion("HF-Linear", seed=seed), only=(0,))


def test_a_unit_that_fails_does_not_stop_the_others_and_is_tried_again(root, monkeypatch):
    execute = working.runs.execute

    def defect(config, *rest):
        if config.seed == 11:
            raise RuntimeError("out of memory")
        return execute(config, *rest)

    monkeypatch.setattr(working.runs, "execute", defect)
    told = []
    units = [fusion(seed=11), fusion("Average", seed=12), FineTuning(fusion(seed=11), 1)]
    outcome = carry_out(root, units, on_result=lambda unit, result: told.append((unit, isinstance(result, str))))
    assert told == [(units[0], True), (units[1], False), (units[2], True)]
    assert [unit for unit, _ in outcome.failed] == [units[0], units[2]] and outcome.done == 1
    assert "out of memory" in outcome.failed[0][1] and outcome.failed[1][1].startswith("it needs KF-Linear")
    monkeypatch.undo()
    assert carry_out(root, units).done == 2


def test_what_a_method_refuses_is_a_result(root):
    units = [refused(0), FineTuning(refused(0), 1)]
    outcome = carry_out(root, units)
    assert (outcome.done, outcome.failed) == (2, [])
    refusals = {read_result(root, unit.key()).refusal for unit in units}
    assert len(refusals) == 1 and "two parents" in refusals.pop()
    with logged(root):
        assert carry_out(root, units).done == 0
    assert not begun(root)


@pytest.mark.parametrize("what", ["a file is locked", "the data are gone"])
def test_what_may_be_otherwise_tomorrow_is_no_refusal(root, monkeypatch, what):
    def fail(*_):
        raise files.Locked(what) if "locked" in what else ValueError(what)

    monkeypatch.setattr(working.runs, "execute", fail)
    if "data" in what:
        monkeypatch.setattr(working, "load", fail)
    with pytest.raises(ValueError, match=what):
        work(fusion(seed=5), root, device="cpu")
    assert read_result(root, fusion(seed=5).key()) is None


def test_a_training_goes_on_after_its_finished_epochs(measured, tmp_path):
    tmp_path, epochs = tmp_path / "runs", []

    def watch(event):
        if event["kind"] == "epoch":
            epochs.append(event["epoch"])

    with pytest.raises(Cancelled):
        carry_out(tmp_path, monitor=Monitor(watch, lambda: bool(epochs)))
    assert epochs == [1] and not measured_in(tmp_path).results
    assert carry_out(tmp_path, [PARENTS[0]], monitor=Monitor(watch)).done == 1 and epochs == [1, 2]
    key = PARENTS[0].key()
    assert all_numbers(tmp_path)[key] == all_numbers(measured)[key]


def test_a_result_says_what_it_is_of(measured):
    result = read_result(measured, fusion(importance="conductance").key())
    assert result.unit == json.loads(json.dumps(fusion(importance="conductance").to_json()))
    assert result.knows().shape == (100,)
    assert result.knows().mean() * 100 == pytest.approx(result.metrics["accuracy"])
    assert result.metrics["processor_seconds"] > 0
    per_part = [read_result(measured, parent.key()).metrics["per_part"] for parent in PARENTS]
    assert all(len(parts) == 2 for parts in per_part)
    assert per_part[0][1] == 0 == per_part[1][0]  # a parent knows nothing of classes that it never saw
    assert numbers([result])[result.key]["command"].startswith("retrofit fuse")
    assert isinstance(fusion(), Fusion) and str(measured) not in result.command
