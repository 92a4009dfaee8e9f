"""compare() on networks in memory: the numbers of each network by itself, reasons, names, and what is refused."""

import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from retrofit_core import METHODS, compare, giving_logits
from retrofit_core.data import load
from retrofit_core.system.refusals import Notice
from retrofit_core.training.evaluation import ensemble, evaluate
from tests.marks import each_case
from tests.networks import labels, mlp, normal


class Pair(nn.Module):
    """Logits beside features."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.one, self.two = nn.Linear(64, 12), nn.Linear(12, 10)

    def forward(self, x):
        h = self.one(x.flatten(1)).relu()
        return self.two(h), h


@pytest.fixture(scope="module")
def data():
    images = load("digits")
    return images.inputs(range(80)), images.labels[:80]


@pytest.fixture(scope="module")
def models():
    return [Pair(0), Pair(1)]


def test_the_numbers_are_those_of_the_networks(models, data):
    test = load("digits", "test")
    board = compare(
        models, data, test, "kf-linear,average,ensemble", importance="uniform,conductance", logits=0, device="cpu"
    )
    rows = {row["name"]: row for row in board.rows}
    assert rows.keys() == {
        "parent 0", "parent 1", "KF-Linear, uniform", "KF-Linear, conductance", "Average", "Ensemble"
    }  # fmt: skip
    fused = giving_logits(METHODS["KF-Linear"](models, data, logits=0, device="cpu").model, 0)
    for name, network in (("KF-Linear, uniform", fused), ("parent 1", lambda x: models[1](x)[0])):
        alone = evaluate(network, test)
        assert {key: rows[name][key] for key in ("accuracy", "loss", "per_class")} == {
            key: alone[key] for key in ("accuracy", "loss", "per_class")
        }
    assert rows["parent 0"]["operations"] == 64 * 12 + 12 * 10 and rows["parent 0"]["parameters"] == 65 * 12 + 13 * 10
    accuracies = [row["accuracy"] for row in board.rows]
    assert accuracies == sorted(accuracies, reverse=True) and board.rows[0]["difference"] == 0
    assert all(row["interval"][0] <= row["difference"] <= row["interval"][1] for row in board.rows)
    assert len(board.to_frame()) == 6 and board.samples == len(test) and board.fused
    assert not re.search(r"(?<!\\)[%_#$]", board.summary().to_latex(escape=True))  # it compiles


def test_methods_of_ones_own_and_reasons(models, data):
    test = load("digits", "test")

    def broken(models, data):
        raise RuntimeError("out of luck")

    methods = {"first": lambda models, data: models[0], "broken": broken}
    rows = {row["name"]: row for row in compare(models, data, test, methods, logits=0).rows}
    assert rows["first"]["accuracy"] == rows["parent 0"]["accuracy"] and rows["first"]["reason"] is None
    assert rows["broken"]["reason"] == "failed: RuntimeError: out of luck" and rows["broken"]["accuracy"] is None
    board = compare([*models, Pair(2)], data, test, "hf-linear,zipit+repair=true", logits=0)
    reasons = {row["name"]: row["reason"] for row in board.rows if row["method"]}
    assert "2" in reasons["HF-Linear, uniform"] and reasons["ZipIt, repair"] is None
    frame = board.to_frame().set_index("name")["reason"]
    assert [name for name, reason in frame.items() if reason] == ["HF-Linear, uniform"]  # no nan, which is true


@pytest.mark.slow
def test_seeds_are_boards_of_one_seed_each(models, data):
    """The interval is that of samples and seeds, wider than that of one seed where seeds differ."""
    test = load("digits", "test")
    settings = {"methods": "kf-linear+grouping=random,average", "samples": 60, "logits": 0, "device": "cpu"}
    board = {row["name"]: row for row in compare(models, data, test, seeds=3, seed=4, **settings).rows}
    alone = [
        {row["name"]: row for row in compare(models, data, test, seed=seed, **settings).rows} for seed in (4, 5, 6)
    ]
    for name, row in board.items():
        each = [rows[name]["accuracy"] for rows in alone]
        assert row["accuracy"] == pytest.approx(sum(each) / 3)
        assert row["per_class"] == pytest.approx(np.mean([rows[name]["per_class"] for rows in alone], 0))
    drawn = next(row for name, row in board.items() if "random" in name)
    assert len({rows[drawn["name"]]["accuracy"] for rows in alone}) > 1
    if drawn["difference"]:
        widths = [np.ptp(row["interval"]) for row in (drawn, *(rows[drawn["name"]] for rows in alone))]
        assert widths[0] > max(widths[1:])


def test_the_board_prints_its_rows_and_what_auto_chose(models, data):
    board = compare(models, data, load("digits", "test"), "auto,average", logits=0, device="cpu")
    auto = next(row for row in board.rows if row["name"] == "Auto")
    assert auto["chose"] and f"Auto: {auto['chose']}" in str(board)
    assert all(f"{row['accuracy']:.2f}" in str(board) for row in board.rows)


@each_case(
    ("changes", "message"),
    [
        ({"methods": "kf-lineer"}, "Did you mean 'KF-Linear'"),
        ({"methods": "average", "logits": None}, r"\(0, 1\) holds the logits is not known"),
        (
            {"methods": {"A": METHODS["KF-Linear"]}, "importance": "conductance", "importance_data": []},
            "functions do not receive compare.s importance, importance_data. Give such options to each: .*lambda",
        ),
        ({"test": torch.zeros(3, 1, 8, 8)}, "have no labels"),
        *[
            (
                {"test": (torch.zeros(3, 1, 8, 8), torch.tensor([0, 1, mark]))},
                f"run from {mark} to 1, .* Leave out samples",
            )
            for mark in (-100, -1)
        ],
    ],
)
def test_refusals_come_before_any_work(models, data, changes, message):
    given = {"test": load("digits", "test"), "methods": "average", "logits": 0, **changes}
    with pytest.raises(ValueError, match=message):
        compare(models, data, **given)


class Passing(IterableDataset):
    """Samples of an iterator."""

    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        return self.samples


@pytest.mark.slow
def test_data_that_can_be_read_once_are_read_once():
    """Generators of batches, and a Dataset without a second pass, for the fusion, the test and the scores; every method gets
    the same samples."""
    parents, x, y = [mlp((6, 8, 4), seed=k).float() for k in range(2)], normal(40, 6).float(), labels(40, 4)

    def batches():
        return ((x[start : start + 16], y[start : start + 16]) for start in range(0, 40, 16))

    scores = {"methods": "average,kf-linear,ensemble", "importance": "conductance"}
    expected = compare(parents, (x, y), (x, y), **scores, importance_data=[(x, y)] * 2)
    board = compare(parents, batches(), batches(), **scores, importance_data=(batches() for _ in range(2)))
    passing = [Passing(zip(x, y, strict=True)) for _ in range(2)]
    again = compare(parents, (x, y), (x, y), **scores, importance_data=[passing[0], DataLoader(passing[1], 16)])
    for of_once in (board, again):
        assert [row["accuracy"] for row in of_once.rows] == [row["accuracy"] for row in expected.rows]
        assert not of_once.reasons


class Applied(nn.Module):
    """A network, and a function of what it returns."""

    def __init__(self, network, function):
        super().__init__()
        self.network, self.function = network, function

    def forward(self, x):
        return self.function(self.network(x))


def test_nan_is_no_answer():
    """A network that gives it has no accuracy, nor has what contains it; NaN in samples is refused."""
    (one, two), x, y = [mlp((6, 8, 4), seed=k).float() for k in range(2)], normal(40, 6).float(), labels(40, 4)
    board = compare([one, Applied(two, lambda z: z * float("nan"))], (x, y), (x, y), "ensemble")
    rows = {row["name"]: row for row in board.rows}
    assert rows["parent 0"]["reason"] is None
    for name in ("parent 1", "Ensemble"):
        assert "gives NaN or infinity on the test samples" in rows[name]["reason"] and rows[name]["accuracy"] is None
    holed = x.clone()
    holed[7, 2] = float("nan")
    with pytest.raises(ValueError, match="test sample 7 holds NaN or infinity"):
        compare([one, two], (x, y), (holed, y), "average")
    with pytest.raises(ValueError, match="parent 1's own data: sample 7 holds NaN or infinity"):
        METHODS["RegMean"].plan([one, two], (x, y), importance_data=[(x, y), (holed, y)])
    endless = Applied(two, lambda z: z * float("inf"))
    for name, data in (("KD", x), ("Auto", torch.cat([x, -x, 2 * x]))):
        with pytest.raises(ValueError, match="gives NaN or infinity on fusion samples .network 1"):
            METHODS[name]([one, endless], data, device="cpu")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*returns probabilities")
def test_the_logarithms_of_probabilities_are_logits():
    """For ensembles, distillation, centred and chosen fusions, losses and calibration."""
    logits, x, y = [mlp((6, 8, 4), seed=k).float() for k in range(2)], normal(60, 6).float(), labels(60, 4)
    soft = [Applied(parent, lambda z: z.softmax(1)) for parent in logits]
    with pytest.warns(Notice, match="returns probabilities"):
        measured = compare(soft, (x, y), (x, y), "ensemble,kf-linear+centre=true,kd+epochs=2,auto").rows
    expected = {
        row["name"]: row
        for row in compare(logits, (x, y), (x, y), "ensemble,kf-linear+centre=true,kd+epochs=2,auto").rows
    }
    for row in measured:
        for score in ("accuracy", "loss", "calibration_error"):
            assert row[score] == pytest.approx(expected[row["name"]][score], abs=1e-3), (row["name"], score)
    assert torch.allclose(ensemble(soft)(x), ensemble(logits)(x), atol=1e-5)
    fused = METHODS["KF-Linear"](soft, x).model
    assert type(fused) is Applied and torch.allclose(fused(x).sum(1), torch.ones(60))
