"""What the comparison of algorithms ticks works, and what it leaves out is refused in a sentence."""

import re

import pytest
import torch
from torch import nn

from retrofit_core import METHODS
from retrofit_core.networks.architectures import build
from tests.marks import each_case
from tests.networks import initialised, labels, mlp, normal
from tests.properties import untouched
from tests.test_contract import NETWORKS, VITS, options_for, reason, takes

pytestmark = pytest.mark.slow

SAMPLES, CLASSES = 20, 4
ANY = "any modularizable architecture"

# --- networks that fall into levels, and what is unusual in each ------------------------------------------------------


def vit(depth, seed=0):
    spec = {"hidden": 12, "depth": depth, "heads": 3, "mlp_width": 10, "classes": 4, "size": 8}
    return build({"architecture": "vit", **spec}, seed).eval()


class Recurrent(nn.Module):
    """Classes read off the last state of a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.states, self.head = nn.GRU(6, 5, batch_first=True), nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.head(self.states(x)[0][:, -1])


class Ordered(nn.Module):
    """A residual block whose neurons are added up in their order, so that no other order computes the same."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return x + self.second(self.first(x).cumsum(1))


class Tied(nn.Module):
    """A residual block of two layers that have one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight

    def forward(self, x):
        return x + self.second(self.first(x).relu())


class Convolutional(nn.Module):
    """No linear layer: classes are the means of channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, CLASSES, 3, padding=1)

    def forward(self, x):
        return self.last(self.first(x).relu()).mean((2, 3))


def of_blocks(block):
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), block(), nn.ReLU(), block(), nn.Linear(8, CLASSES))


def recurrent(seed):
    model = Recurrent().eval()
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.data = 0.5 * torch.randn(parameter.shape, generator=generator)
    return model


UNUSUAL = {
    "recurrent": (recurrent, (5, 6)),
    "ordered neurons": (lambda seed: initialised(of_blocks(Ordered), seed).float(), (6,)),
    "tied weights": (lambda seed: initialised(of_blocks(Tied), seed).float(), (6,)),
    "no linear layer": (lambda seed: initialised(Convolutional(), seed).float(), (3, 8, 8)),
}
DEEP, SHALLOW = (6, 8, 8, 7, CLASSES), (6, 8, 7, CLASSES)
#: Parents and the shape of a sample of the columns that only this file tries.
CASES = {
    ANY: lambda: {name: ([make(seed) for seed in range(2)], shape) for name, (make, shape) in UNUSUAL.items()},
    "different depths": lambda: {
        "mlp": ([mlp(SHALLOW).float(), mlp(DEEP, seed=1).float()], (6,)),
        "vit": ([vit(2), vit(4, seed=1)], (3, 8, 8)),
    },
}
#: Why a column is not ticked: what the refusals of its cases say.
REASONS = {
    ANY: "cannot be followed through|is not affine in its weights|it is not known which neurons belong together|are one tensor"
    "|no head to train|tied weights cannot be fitted one level at a time",
    "different depths": "have no counterpart in the fused network|weights cannot be averaged: .* has the shapes",
}
#: What the contract of all methods says of the others: networks and a situation, in which a method works or refuses.
CONTRACT = {
    "linear layers": (("mlp",), "two parents"),
    "transformers": (VITS, "two parents"),
    "more than two models": (("mlp", "cnn"), "three parents"),
    "different widths": (("mlp", "cnn"), "other widths"),
}


def outcome(name, parents, shape, **options):
    """The fused network, or the sentence that refuses."""
    data = normal(SAMPLES, *shape).float(), labels(SAMPLES, CLASSES)
    with untouched(*parents):
        try:
            fused = METHODS[name](parents, data, **{**options_for(name), **options}).model
        except ValueError as error:
            return str(error)
    with torch.no_grad():
        assert torch.isfinite(fused(data[0])).all()
    return fused


#: What a method declares of what only this file tries.
TICKED = {ANY: lambda takes: takes.any_architecture, "different depths": lambda takes: takes.other_depths}


@each_case("name", METHODS)
def test_ticks_are_those_of_the_contract(name):
    declared = METHODS[name].takes
    ticks = {
        "linear layers": declared.linear_layers,
        "transformers": declared.transformers,
        "more than two models": declared.parents[1] is None or declared.parents[1] > 2,
        "different widths": not declared.equal_widths,
    }
    for title, (networks, situation) in CONTRACT.items():
        assert ticks[title] == all(reason(name, network, situation) is None for network in networks), title
    assert declared.importance == takes(name, "importance")


@pytest.mark.long
@each_case("title", CASES)
@each_case("name", METHODS)
def test_ticks_work_and_the_rest_is_refused(name, title):
    cases = CASES[title]()
    if title == "different depths" and "Linear" in name:
        del cases["vit"]  # whose levels inside of blocks cannot be joined
    is_ticked, refusals = TICKED[title](METHODS[name].takes), {}
    for case, given in cases.items():
        sentence = outcome(name, *given)
        if isinstance(sentence, str):
            refusals[case] = sentence
            if title == ANY and not is_ticked:
                break  # one is enough
    if is_ticked:
        assert refusals == {}
        return
    assert refusals and (title == ANY or refusals.keys() == cases.keys()), "works, but is not ticked"
    for sentence in refusals.values():
        assert re.search(REASONS[title], sentence) and sentence[-1] in ".?", sentence


@pytest.mark.long
@each_case("name", METHODS)
def test_where_scores_are_taken_they_decide(name):
    if not METHODS[name].takes.importance:
        return
    family = NETWORKS["mlp"]
    parents, x = [family.make(seed) for seed in range(2)], normal(SAMPLES, *family.shape).float()
    chosen = {"importance": "conductance", "importance_data": "fusion"}
    scored, plain = (outcome(name, parents, family.shape, **options) for options in (chosen, {}))
    with torch.no_grad():
        assert not torch.allclose(scored(x), plain(x), rtol=1e-3)
