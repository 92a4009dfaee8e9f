"""The runner in one process: what is measured, measured again, refused, left for another time."""

import shutil
from pathlib import Path

import pytest

from retrofit_core.experiments import work as working
from retrofit_core.experiments.results import FOLDER, results_of
from retrofit_core.experiments.work import measure, missing
from retrofit_core.system import files
from retrofit_core.system.monitor import Cancelled, Monitor
from tests.experiments.tiny import CELLS, TABLE, TRAINING, all_numbers, carry_out, cell

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A runs folder with every cell done; not to be changed."""
    root = tmp_path_factory.mktemp("measured") / "runs"
    told = []
    assert carry_out(root, on_result=lambda cells, results: told.append((cells, results))) == []
    assert sorted(str(each) for cells, _ in told for each in cells) == sorted(map(str, CELLS))
    return root


@pytest.fixture
def root(measured, tmp_path):
    """A copy of it."""
    shutil.copytree(measured, tmp_path / "runs")
    return tmp_path / "runs"


def test_a_number_is_that_of_its_network(measured):
    by_row = {(result.column, result.row): result for result in results_of(TABLE, measured)}
    assert len(by_row) == len(CELLS)
    for result in by_row.values():
        assert result.knows().shape == (100,) and result.knows().mean() * 100 == pytest.approx(result.value)
        assert len(result.metrics["per_class"]) == 10 and "commit" in result.machine
        assert result.scale == "smoke, digits for cifar10"
    assert by_row["2-way zero-shot", "KF-Linear, uniform"] != by_row["2-way fine-tuned", "KF-Linear, uniform"]


def test_results_outlive_what_they_were_made_of(measured, root, tmp_path):
    """Carried to another machine, they are still good; what is new trains the parents again."""
    shutil.rmtree(root / TRAINING.folder)
    for network in root.glob(f"{FOLDER}/*"):
        if network.is_dir():
            shutil.rmtree(network)
    assert not missing(CELLS, root)
    new = cell("KF-Linear, uniform", seed=5)
    assert carry_out(root, [new]) == []
    assert all(Path(file).exists() for file in TRAINING.files(root / TRAINING.folder))
    whole = tmp_path / "whole" / "runs"
    shutil.copytree(measured, whole)
    carry_out(whole, [new])
    assert all_numbers(root) == all_numbers(whole)


def test_a_cell_that_fails_does_not_stop_the_others_and_is_tried_again(root, monkeypatch):
    execute = working.execute

    def defect(config, *rest):
        if config.seed == 11:
            raise RuntimeError("out of memory")
        return execute(config, *rest)

    monkeypatch.setattr(working, "execute", defect)
    cells = [cell("KF-Linear, uniform", column, seed=11) for column in ("2-way zero-shot", "2-way fine-tuned")]
    failed = carry_out(root, [*cells, cell("Average", seed=12)])
    assert [each for each, _ in failed] == cells and all("out of memory" in why for _, why in failed)
    assert missing([*cells, cell("Average", seed=12)], root) == cells
    monkeypatch.undo()
    assert carry_out(root, cells) == [] and not missing(cells, root)


def test_what_a_method_refuses_is_a_result(root, monkeypatch):
    def refuse(*_):
        raise ValueError("it wants two parents.")

    monkeypatch.setattr(working, "execute", refuse)
    cells = [cell("KF-Linear, uniform", column, seed=11) for column in ("2-way zero-shot", "2-way fine-tuned")]
    assert carry_out(root, cells) == []
    refusals = [result.refusal for result in results_of(TABLE, root) if result.seed == 11]
    assert refusals == ["it wants two parents."] * 2 and not missing(cells, root)


@pytest.mark.parametrize("what", ["a file is locked", "the data are gone"])
def test_what_may_be_otherwise_tomorrow_is_no_refusal(root, monkeypatch, what):
    def fail(*_):
        raise files.Locked(what) if "locked" in what else ValueError(what)

    monkeypatch.setattr(working, "execute", fail)
    if "data" in what:
        monkeypatch.setattr(working, "load", fail)
    new = [cell("KF-Linear, uniform", seed=5)]
    with pytest.raises(ValueError, match=what):
        measure(new, root, Monitor(), "cpu")
    assert missing(new, root) == new


def test_a_training_goes_on_after_its_finished_epochs(measured, tmp_path):
    epochs = []

    def watch(event):
        if event["kind"] == "epoch":
            epochs.append(event["epoch"])

    with pytest.raises(Cancelled):
        carry_out(tmp_path, monitor=Monitor(watch, lambda: bool(epochs)))
    assert epochs == [1] and not results_of(TABLE, tmp_path)
    assert carry_out(tmp_path, [CELLS[0]], monitor=Monitor(watch)) == [] and epochs == [1, 2, 1, 2]
    assert all_numbers(tmp_path).items() <= all_numbers(measured).items()
