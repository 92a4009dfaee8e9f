"""Outputs of any shape: one number, tokens, pixels. Methods that match values are right; those that read classes refuse."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from retrofit_core import METHODS, compare, evaluate, fuse
from retrofit_core.data import load
from retrofit_core.fusion.importance import Conductance, DeepLift
from retrofit_core.inspection.analysis import analyse
from retrofit_core.training import train
from retrofit_core.training.evaluation import ensemble
from tests.marks import each_case, spread
from tests.networks import initialised, normal, shuffled
from tests.properties import assert_same_function, untouched
from tests.test_twins import ALIGNING, LINEAR

pytestmark = pytest.mark.slow

SAMPLES = 60


def mlp(classes):
    return nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, classes))


def convolutions(layer):
    return nn.Sequential(layer(2, 6, 3, padding=1), nn.ReLU(), layer(6, 6, 3, padding=1), nn.ReLU(), layer(6, 3, 1))


class Squeezed(nn.Module):
    """A regression whose output has the batch's axis alone."""

    def __init__(self):
        super().__init__()
        self.layers = mlp(1)

    def forward(self, x):
        return self.layers(x).squeeze(-1)


#: Networks and the shape of a sample.
NETWORKS = {
    "one output": (partial(mlp, 1), (5,)),
    "squeezed": (Squeezed, (5,)),
    "tokens": (partial(mlp, 3), (4, 5)),
    "one token": (partial(mlp, 3), (1, 5)),
    "sequences": (partial(convolutions, nn.Conv1d), (2, 7)),
    "dense": (partial(convolutions, nn.Conv2d), (2, 5, 5)),
}
#: What reads class scores, with what these outputs are refused for, and a way out that works.
READS_CLASSES = {
    "Ensemble": ("Use .*Ensemble-Logits", "Ensemble-Logits", {}),
    "KD": ("Use loss='mse'", "KD", {"loss": "mse", "start": "parent0", "epochs": 1, "weight_decay": 0.0}),
    "Auto": ("Use KF-Linear", "KF-Linear", LINEAR),
}
#: What only matches values, with the options under which the same network twice is that network.
MATCHES_VALUES = {
    **ALIGNING,
    "Average": {},
    "RegMean": {},
    "Ensemble-Logits": {},
    "LP": {"epochs": 1},
}
#: What needs a head that is a layer.
CANNOT = {(network, "LP"): "so there is no head to train alone" for network in ("squeezed", "sequences", "dense")}


def case(name):
    """A network and data with labels."""
    make, shape = NETWORKS[name]
    return initialised(make(), 1), normal(SAMPLES, *shape), torch.zeros(SAMPLES, dtype=torch.int64)


def test_every_method_is_of_one_kind():
    assert sorted([*READS_CLASSES, *MATCHES_VALUES, "Random-Linear"]) == sorted(METHODS)


@each_case("method, name", spread(MATCHES_VALUES, NETWORKS, 1))
def test_values_of_any_shape_are_matched(name, method):
    """The same network twice is that network, and a copy in another order is found by what looks for it."""
    model, x, _ = case(name)
    options = {**MATCHES_VALUES[method], "device": "cpu"}
    others = [copy.deepcopy(model)]
    if method in ALIGNING and (name, method) not in CANNOT:
        others.append(shuffled(model, x, 3))
    for other in others:
        with untouched(model, other):
            if why := CANNOT.get((name, method)):
                with pytest.raises(ValueError, match=why):
                    METHODS[method].plan([model, other], x, **options)
                continue
            result = METHODS[method]([model, other], x, **options)
        assert_same_function(result.model, model, x, 1e-6)


@each_case("method, name", spread(READS_CLASSES, NETWORKS, 1))
def test_what_reads_classes_refuses_other_outputs_before_any_work(name, method):
    model, x, y = case(name)
    parents = [model, copy.deepcopy(model)]
    way_out, instead, options = READS_CLASSES[method]
    with pytest.raises(ValueError, match=f"class scores.*{way_out}"):
        METHODS[method].plan(parents, (x, y), device="cpu")
    if (name, instead) not in CANNOT:
        assert_same_function(METHODS[instead](parents, x, device="cpu", **options).model, model, x, 1e-6)


@each_case("name, score", zip(["one output", "dense"], [Conductance, DeepLift], strict=True))
def test_scores_for_true_classes_refuse_other_outputs(name, score):
    model, x, y = case(name)
    parents = [model, copy.deepcopy(model)]
    for method in ("KF-Linear", "OTFusion"):
        with pytest.raises(ValueError, match="importance '.*' needs class scores.*Use importance='uniform'"):
            METHODS[method].plan(parents, (x, y), importance=score(data="fusion"), device="cpu")


def test_options_that_read_classes_refuse_other_outputs():
    model, x, y = case("tokens")
    parents = [model, copy.deepcopy(model)]
    with pytest.raises(ValueError, match="a mean of probabilities needs class scores"):
        ensemble(parents)(x)
    with pytest.raises(ValueError, match="compare: the accuracy of parent 0 needs class scores"):
        compare(parents, x, (x, y), methods="average")


class Patches(nn.Module):
    """Digits in rows, each with outputs of its own; or all in one number."""

    def __init__(self, alone):
        super().__init__()
        self.first, self.head, self.alone = nn.Linear(8, 6), nn.Linear(6, 1 if alone else 10), alone

    def forward(self, x):
        x = self.head(self.first(x[:, 0]).relu())
        return x.mean(1) if self.alone else x


@pytest.mark.parametrize("alone", [True, False])
def test_training_measuring_and_analysing_refuse_other_outputs(alone):
    images, model = load("digits", "test"), initialised(Patches(alone), 0).float()
    with pytest.raises(ValueError, match="an accuracy needs class scores"):
        evaluate(model, images)
    with pytest.raises(ValueError, match="an accuracy needs class scores"):
        train(model, images, epochs=1)
    x = images.inputs(range(40))
    parents = [model, copy.deepcopy(model)]
    result = fuse(parents, x)
    found = analyse(parents, result, (x, images.labels[:40]), test=images)
    assert found.accuracy == [] and "needs class scores" in found.missing["accuracy"]
    assert "needs class scores" in found.missing["conductance"]
