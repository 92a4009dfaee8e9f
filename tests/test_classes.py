"""Networks in which more than one level makes the classes: class c stays class c at each of them."""

import copy

import pytest
import torch

from retrofit_core import fuse
from retrofit_core.methods import METHODS, RETROFITTING
from tests.families import CLASSES_TWICE, JOINS, early
from tests.marks import each_case, spread
from tests.networks import initialised, normal
from tests.plain import least_squares, matched, projected, put
from tests.properties import assert_same_tensors

DATA = normal(90, 6)


def network(name, seed=0):
    return initialised(CLASSES_TWICE[name](), seed)


@pytest.mark.slow
@each_case("name, method", spread(CLASSES_TWICE, RETROFITTING, 2))
def test_class_c_stays_class_c_wherever_classes_are_made(name, method):
    options = {"epochs": 1} if "Gradient" in method else {}
    result = METHODS[method]([network(name, 1), network(name, 2)], DATA, device="cpu", **options)
    made = {
        level.name: level.labels.view(2, -1)[:, :4]
        for level in result.levels
        if level.name not in ("first", "second") and not level.name.endswith(".0")
    }
    made.pop("inner", None)
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


@pytest.mark.parametrize("name", ["weighted", "both"])
def test_each_head_weighs_the_classes_as_the_last_one_does(name):
    parents, shares = [network(name, 1), network(name, 2)], torch.tensor([[0.9, 0.1, 0.4, 0.5], [0.1, 0.9, 0.6, 0.5]])
    result = fuse(parents, DATA, head="shares", class_shares=shares)
    at = {level.name: level.scores.view(2, -1)[:, :4] for level in result.levels}
    for level in ("exit" if name == "weighted" else "wide", "head"):
        assert torch.equal(at[level], shares.to(at[level]))


def test_other_classes_at_an_early_exit_are_refused():
    parents = [initialised(early(lambda early, late: late * early.mean(1, keepdim=True)), seed) for seed in (1, 2)]
    assert len(fuse(parents, DATA).levels) == 4  # what is no class is grouped
    parents = [initialised(early(JOINS["gated"], classes=classes), 1) for classes in (4, 3)]
    with pytest.raises(ValueError, match=r"level 'exit': the parents have \[4, 3\] classes and the fused network 4"):
        fuse(parents, DATA)
