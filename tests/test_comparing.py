"""compare() on networks in memory: the numbers of each network by itself, reasons, names, and what is refused."""

import pytest
import torch
from torch import nn

from retrofit_core import METHODS, compare
from retrofit_core.data import load
from retrofit_core.training.evaluation import evaluate
from tests.marks import each_case


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
    fused = METHODS["KF-Linear"](models, data, logits=0, device="cpu").model
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


def test_tensors_are_as_good_as_images(models, data):
    test = load("digits", "test")
    whole = compare(models, data[0], test, ["average"], logits=0, device="cpu")
    plain = compare(models, data[0], (test.inputs(), test.labels), ["average"], logits=0, device="cpu")
    assert [row["accuracy"] for row in plain.rows] == [row["accuracy"] for row in whole.rows]
    assert [row["per_class"] for row in plain.rows] == [row["per_class"] for row in whole.rows]
    assert plain.classes == [str(label) for label in range(10)]


def test_methods_of_ones_own_and_reasons(models, data):
    test = load("digits", "test")

    def broken(models, data):
        raise RuntimeError("out of luck")

    methods = {"first": lambda models, data: models[0], "broken": broken}
    rows = {row["name"]: row for row in compare(models, data, test, methods, logits=0, names=["A", "B"]).rows}
    assert rows["first"]["accuracy"] == rows["A"]["accuracy"] and rows["first"]["reason"] is None
    assert rows["broken"]["reason"] == "failed: RuntimeError: out of luck" and rows["broken"]["accuracy"] is None
    board = compare([*models, Pair(2)], data, test, "hf-linear,zipit+repair=true", logits=0)
    reasons = {row["name"]: row["reason"] for row in board.rows if row["method"]}
    assert "2" in reasons["HF-Linear, uniform"] and reasons["ZipIt, repair"] is None
    frame = board.to_frame().set_index("name")["reason"]
    assert [name for name, reason in frame.items() if reason] == ["HF-Linear, uniform"]  # no nan, which is true


@each_case(
    ("changes", "message"),
    [
        ({"methods": "kf-lineer"}, "Did you mean 'KF-Linear'"),
        ({"methods": "average", "width": 3}, "none of these methods has a keyword 'width'"),
        ({"methods": "average", "names": ["A"]}, "1 names for 2 networks"),
        ({"methods": "average", "logits": None}, r"\(0, 1\) holds the logits is not known"),
        ({"methods": "kf-linear+max_iterationz=3"}, "max_iterationz"),
        ({"methods": [METHODS["Average"]]}, r"is not the name of a method. Give functions with names"),
        ({"methods": {"A": "average"}}, r"methods\['A'\] is 'average', which is not a function"),
        (
            {"methods": {"A": METHODS["KF-Linear"]}, "importance": "conductance", "importance_data": []},
            "functions do not receive compare.s importance, importance_data. Give such options to each: .*lambda",
        ),
        ({"methods": {"A": METHODS["KF-Linear"]}, "active": True}, "functions do not receive compare.s active"),
        ({"test": torch.zeros(3, 1, 8, 8)}, "have no labels"),
        (
            {"test": (torch.zeros(3, 1, 8, 8), torch.tensor([0, 1, 12]))},
            "labels run from 0 to 12, and parent 0 has 10 classes",
        ),
    ],
)
def test_refusals_come_before_any_work(models, data, changes, message):
    given = {"test": load("digits", "test"), "methods": "average", "logits": 0, **changes}
    with pytest.raises(ValueError, match=message):
        compare(models, data, **given)
