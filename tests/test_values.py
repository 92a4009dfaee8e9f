"""Fusions described by values: made once, checked when made, the same through every door, and told by the result."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from retrofit_core import METHODS, fuse
from retrofit_core.fusion.fit import Gradient, Ridge
from retrofit_core.fusion.grouping import Grouper, Grouping, KMeans
from retrofit_core.fusion.importance import Conductance, Custom, DeepLift, Importance
from retrofit_core.system.settings import Range, setting
from tests.marks import each_case
from tests.networks import labels, mlp, normal

X, Y = normal(40, 6), labels(40, 4)
DATA = [(X, Y)] * 2


def pair():
    return [mlp(), mlp(seed=2)]


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in model.state_dict().values()])


# --- the values themselves ---------------------------------------------------------------------------------------------


def test_values_are_frozen_compared_by_contents_and_refuse_wrong_ones():
    assert KMeans(restarts=3) == KMeans(restarts=3) != KMeans()
    with pytest.raises(dataclasses.FrozenInstanceError):
        KMeans().restarts = 4  # type: ignore[misc]
    for make, message in (
        (lambda: Ridge(project="yes"), "project is 'yes'. Use true or false"),
        (lambda: Ridge("much"), "ridge is 'much'. Use 'auto', a number from 0"),
        (lambda: Ridge(toward="mean"), "toward is 'mean'. Use auto, zero, parents"),
        (lambda: DeepLift(fallback="zero"), "fallback is 'zero'. Use gradient, none"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


# --- the same through every door -----------------------------------------------------------------------------------------


def test_the_data_of_a_score_are_given_once_inside_it_or_beside_it():
    inside = METHODS["KF-Linear"](pair(), (X, Y), importance=Conductance(DATA, steps=2))
    beside = METHODS["KF-Linear"](pair(), (X, Y), importance=Conductance(steps=2), importance_data=DATA)
    assert torch.equal(weights(inside.model), weights(beside.model)) and inside.config == beside.config
    with pytest.raises(ValueError, match=r"importance_data is given in addition to data inside DeepLift\(...\)"):
        METHODS["KF-Linear"](pair(), (X, Y), importance=DeepLift(DATA), importance_data=DATA)
    for importance in (DeepLift(), DeepLift, "deeplift"):
        with pytest.raises(ValueError, match=r"'deeplift' needs data.* inside the value: DeepLift\(data=...\)"):
            fuse(pair(), (X, Y), importance=importance)


@each_case(
    "more, message",
    [
        ({"fit": None}, "fit is of type NoneType. Pass one of Ridge, Gradient, or a name"),
        (
            {"grouping": 3},
            r"grouping is of type int. Pass one of Hungarian, KMeans, .*, or a function\.$",
        ),
        ({"fit": lambda fitting: None}, "fit is of type function. Pass one of Ridge, Gradient, or a name .*\\.$"),
    ],
)
def test_what_cannot_be_meant_is_refused(more, message):
    with pytest.raises(ValueError, match=message):
        fuse(pair(), X, **more)


# --- functions of one's own ---------------------------------------------------------------------------------------------


def test_a_score_may_return_arrays_and_take_keywords():
    def score(neurons, x, y, power=1.0):
        return [np.arange(1, place.width + 1, dtype=np.float64) ** power for place in neurons]

    result = fuse(pair(), (X, Y), importance=Custom(DATA, function=score, options={"power": 2.0}))
    assert result.config["importance"] == "score"
    assert torch.allclose(result.levels[0].scores[:8], torch.arange(1, 9).double() ** 2 / 204)
    flat = METHODS["KF-Linear"](pair(), (X, Y), importance=score, importance_data=DATA)
    assert torch.allclose(flat.levels[0].scores[:8], torch.arange(1, 9).double() / 36)


@pytest.mark.slow
@each_case(
    "returned, message",
    [
        (lambda m, d: Grouping(torch.zeros(m).long(), d, 0.0), "7 of the grouping's 8 groups are empty"),
        (lambda m, d: Grouping(torch.arange(m), d, 0.0), "labels run from 0 to 15; use 0 to 7"),
        (lambda m, d: Grouping(torch.arange(m - 1) % d, d, 0.0), "16 whole-number labels"),
        (lambda m, d: Grouping(torch.arange(m) % d * 1.0, d, 0.0), "16 whole-number labels"),
        (lambda m, d: Grouping(torch.arange(m) % d, d - 1, 0.0), r"must return Grouping\(labels, width=8, cost\)"),
        (lambda m, d: torch.arange(m) % d, r"must return Grouping\(labels, width=8, cost\)"),
    ],
)
def test_a_grouping_of_ones_own_is_checked(returned, message):
    def function(gram, scores, widths, width, *, generator=None):
        return returned(len(scores), width)

    with pytest.raises(ValueError, match=message):
        fuse(pair(), X, grouping=function)


# --- a new score and a new grouping ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Lengths(Importance):
    """Length of a neuron's incoming weights."""

    needs_data = False
    needs_labels = False
    power: float = setting(1.0, "the lengths are raised to it", Range(0))

    def scores(self, neurons, x, y, *, monitor):
        return [weights[:-1].norm(dim=0) ** self.power for weights in neurons.weights()]


@dataclasses.dataclass(frozen=True)
class InTurn(Grouper):
    """Neurons are dealt out like cards."""

    offset: int = setting(0, "group of the first neuron", Range(0, 9))

    def __call__(self, gram, scores, widths, width, *, generator=None):
        return Grouping((torch.arange(len(gram)) + self.offset) % width, width, 0.0)


def test_an_own_score_and_grouping_need_no_table():
    """By value and by class, alone or with options beside them; the config names them."""
    by_value = fuse(pair(), X, grouping=InTurn(offset=2), importance=Lengths(power=2.0))
    by_class = METHODS["KF-Linear"](pair(), X, grouping=InTurn, offset=2, importance=Lengths, power=2.0)
    assert torch.equal(weights(by_value.model), weights(by_class.model))
    expected = {"grouping": "InTurn", "offset": 2, "importance": "Lengths", "power": 2.0}
    for result in (by_value, by_class):
        assert expected.items() <= result.config.items()
    assert fuse(pair(), X, importance=Lengths).config["power"] == 1.0
    own_data = Lengths([(torch.arange(6000.0).reshape(1000, 6), None)] * 2)
    with pytest.raises(ValueError, match="grouping is of type Lengths") as refusal:
        fuse(pair(), X, grouping=own_data)
    assert "\n" not in str(refusal.value) and "tensor" not in str(refusal.value)  # however many groupings there are


# --- results and circumstances ---------------------------------------------------------------------------------------------


def test_the_config_of_a_result_holds_everything_that_decided_it():
    result = fuse(
        pair(),
        (X, Y),
        grouping=KMeans(restarts=2),
        fit=Gradient(epochs=1, weighted_loss=True),
        importance=Conductance(DATA, steps=2, normalise_scores=False),
        seed=3,
    )
    expected = {
        "grouping": "kmeans",
        "restarts": 2,
        "fit": "gradient",
        "epochs": 1,
        "weighted_loss": True,
        "importance": "conductance",
        "steps": 2,
        "normalise_scores": False,
        "seed": 3,
        "samples": 40,
        "head": "scores",
        "target": None,
    }
    assert expected.items() <= result.config.items()
    assert "ridge" not in result.config
    again = METHODS["KF-Gradient"](
        pair(),
        (X, Y),
        importance_data=DATA,
        **{name: value for name, value in result.config.items() if name not in ("samples", "target")},
    )
    assert torch.equal(weights(again.model), weights(result.model))


@pytest.mark.slow
@each_case("name", METHODS)
def test_what_a_method_says_of_parents_is_what_its_plan_takes(name):
    """Numbers of parents, and parents of other widths."""
    method = METHODS[name]
    least, most = method.takes.parents

    def plans(parents) -> bool:
        try:
            method.plan(parents, (X, Y))
        except ValueError:
            return False
        return True

    for count in (1, 2, 3):
        parents = [mlp(seed=k) for k in range(count)]
        assert plans(parents) == (least <= count and (most is None or count <= most)), count
    assert plans([mlp((6, 8, 7, 4)), mlp((6, 9, 5, 4), seed=1)]) != method.takes.equal_widths
