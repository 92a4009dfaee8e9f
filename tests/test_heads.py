"""Heads: classes that differ are refused, and outputs that are not fused are named."""

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from retrofit_core import METHODS, fuse
from retrofit_core.methods import RETROFITTING
from retrofit_core.system.refusals import Notice
from tests.families import CLASSES_TWICE, JOINS, early
from tests.marks import each_case, spread
from tests.networks import initialised, normal, seeded
from tests.plain import least_squares, matched, projected, put
from tests.properties import assert_close, assert_same_tensors


def classifier(outputs, seed=0):
    return seeded(seed, lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, outputs))).double().eval()


# --- different classes ---------------------------------------------------------------------------------------------------


def test_networks_that_name_other_classes_are_refused():
    networks: list[Any] = [classifier(3), classifier(3, 1)]
    for network, names in zip(networks, ("abc", "def"), strict=True):
        network.classes = list(names)
    with pytest.raises(ValueError, match=r"parent 0 tells a, b, c apart, and parent 1 d, e, f.*last layer for all"):
        METHODS["KF-Linear"](networks, normal(20, 4))
    networks[1].classes = ["a", "c", "b"]
    with pytest.raises(ValueError, match="a, c, b"):
        METHODS["Ensemble"](networks, normal(20, 4))
    networks = [classifier(3), classifier(3, 1)]
    networks[0].config = SimpleNamespace(id2label={0: "cat", 1: "dog", 2: "owl"})
    networks[1].config = SimpleNamespace(id2label={0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"})  # says nothing
    METHODS["Average"](networks, normal(20, 4))
    networks[1].config = SimpleNamespace(id2label={0: "cat", 1: "dog", 2: "hen"})
    with pytest.raises(ValueError, match="hen"):
        METHODS["KF-Linear"](networks, normal(20, 4))


# --- networks in which more than one level makes the classes: class c stays class c at each of them -------------------


DATA = normal(90, 6)


def network(name, seed=0):
    return initialised(CLASSES_TWICE[name](), seed)


@pytest.mark.slow
@each_case("name, method", spread(CLASSES_TWICE, RETROFITTING, 1))
def test_class_c_stays_class_c_wherever_classes_are_made(name, method):
    options = {"epochs": 1} if "Gradient" in method else {}
    result = METHODS[method]([network(name, 1), network(name, 2)], DATA, device="cpu", **options)
    made = {
        level.name: level.labels.view(2, -1)[:, :4] for level in result.levels if level.name not in ("first", "second")
    }
    for level, groups in made.items():
        assert torch.equal(groups, torch.arange(4).expand(2, 4)), level


@torch.no_grad()
def plainly(parents, x):
    """HF with uniform scores and no ridge, layer by layer, each head the mean of the parents' as they lie."""
    mine, theirs = parents
    fused = copy.deepcopy(mine)

    def hidden(name, inputs, left, right):
        order = matched(projected(inputs, left), projected(inputs, right))
        put(getattr(fused, name), least_squares(inputs, (left + right[:, order]) / 2))

    hidden("first", x, mine.first(x), theirs.first(x))
    h, left, right = (network.first(x).relu() for network in (fused, mine, theirs))
    put(fused.exit, least_squares(h, (mine.exit(left) + theirs.exit(right)) / 2))
    hidden("second", h, mine.second(left), theirs.second(right))
    h, left, right = (network.second(h).relu() for network, h in ((fused, h), (mine, left), (theirs, right)))
    put(fused.head, least_squares(h, (mine.head(left) + theirs.head(right)) / 2))
    return fused


@pytest.mark.parametrize("name", ["weighted", "gated"])
def test_equals_plain_least_squares_with_each_head_as_it_lies(name):
    parents = [network(name, 1), network(name, 2)]
    result = METHODS["HF-Linear"](parents, DATA, ridge=0.0, device="cpu")
    assert_same_tensors(result.model, plainly(parents, DATA), 1e-7)


def test_other_classes_at_an_early_exit_are_refused():
    parents = [initialised(early(lambda early, late: late * early.mean(1, keepdim=True)), seed) for seed in (1, 2)]
    assert len(fuse(parents, DATA).levels) == 4  # what is no class is grouped
    parents = [initialised(early(JOINS["gated"], classes=classes), 1) for classes in (4, 3)]
    with pytest.raises(ValueError, match="the networks have 4 and 3 classes"):
        fuse(parents, DATA)


class Two(nn.Module):
    """A trunk with two heads, whose outputs are a dict, or one tensor."""

    def __init__(self, joined=False):
        super().__init__()
        self.joined, self.first, self.second = joined, nn.Linear(6, 9), nn.Linear(9, 7)
        self.shape, self.colour, self.size = nn.Linear(7, 3), nn.Linear(7, 5), nn.Linear(7, 1)

    def forward(self, x):
        h = self.second(self.first(x).relu()).relu()
        heads = {"shape": self.shape(h), "colour": self.colour(h), "size": self.size(h)}
        return torch.cat([heads["shape"], heads["colour"]], 1) if self.joined else heads


def two(joined=False):
    return [initialised(Two(joined), seed) for seed in (1, 2)]


@pytest.mark.parametrize("method", ["KF-Linear", "HF-Linear"])
def test_each_of_several_outputs_is_fitted_as_the_last_layer(method):
    with pytest.warns(Notice, match="only the output .*'size' lead"):
        fused = METHODS[method](two(), DATA, logits=["shape", "colour"], ridge=0, device="cpu")
    expected = METHODS[method](two(joined=True), DATA, ridge=0, device="cpu")
    outputs = fused.model(DATA)
    assert_close(torch.cat([outputs["shape"], outputs["colour"]], 1), expected.model(DATA), 1e-10)
    assert outputs.keys() == {"shape", "colour", "size"} and fused.config["logits"] == ("shape", "colour")


@pytest.mark.filterwarnings("ignore:only the output")
@pytest.mark.parametrize("method", ["KF-Gradient", "ZipIt", "KD"])
def test_what_reads_one_output_refuses_several(method):
    with pytest.raises(ValueError, match="parent 0 gives 2 outputs, of which one is read here"):
        METHODS[method](two(), DATA, logits=["shape", "colour"], device="cpu")
    with pytest.raises(ValueError, match="explains one output, and several are fused"):
        data = {"importance": "conductance", "importance_data": "fusion"}
        METHODS["KF-Linear"](
            two(), (DATA, torch.arange(len(DATA)) % 3), logits=["shape", "colour"], device="cpu", **data
        )
