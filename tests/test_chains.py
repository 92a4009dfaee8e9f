"""Structure among the neurons of a plain chain: gates, parts of a norm, attentions without a skip, constants, buffers."""

import copy
from typing import Any

import pytest
import torch

from retrofit_core import fuse
from retrofit_core.methods import METHODS, RETROFITTING
from tests.families import BUFFERS, STRUCTURED, Code, two
from tests.marks import each_case, spread
from tests.networks import initialised, normal, shuffled
from tests.plain import least_squares, matched, projected, put
from tests.properties import assert_same_function, assert_same_tensors

CLOSED = ("HF-Linear", "KF-Linear")
FLAT = normal(90, 6)
OPTIONS = {
    **dict.fromkeys(CLOSED, {"ridge": 0.0}),
    **dict.fromkeys(("HF-Gradient", "KF-Gradient"), {"epochs": 1, "weight_decay": 0.0}),
}


def network(case, seed=0) -> Any:
    forward, parts, *_ = case
    return initialised(Code(forward, **parts), seed)


@pytest.mark.slow
@each_case("name, method", spread(STRUCTURED, RETROFITTING, 2))
def test_neurons_of_other_kinds_are_never_in_one_group(name, method):
    case = STRUCTURED[name]
    kinds = torch.tensor(case[2])
    result = METHODS[method]([network(case, 1), network(case, 2)], FLAT, device="cpu", **OPTIONS[method])
    labels = result.levels[0].labels
    assert torch.equal(kinds[labels], kinds.repeat(2))
    if name in ("gate", "glu"):  # both halves have the same groups
        left, right = labels.view(2, 2, 4).unbind(1)
        assert torch.equal(left + 4, right)


@pytest.mark.slow
@each_case("name, method", spread(BUFFERS, reversed(CLOSED), 1))
def test_buffers_go_with_the_neurons_into_a_target(name, method):
    """The target's own are numbers for neurons in another order."""
    case = BUFFERS[name]
    model = network(case, 3)
    target = network(case, 4)
    for buffer in target.buffers():
        if buffer.is_floating_point():
            buffer.copy_(buffer.flip(0 if buffer.ndim < 3 else -1) + 0.5)
    x = normal(60, *case[2])
    result = METHODS[method]([model, shuffled(model, x)], x, target=target, ridge=0.0, device="cpu")
    assert_same_function(result.model, model, x, 1e-8)


def test_buffers_are_means_as_the_targets_are():
    case = BUFFERS["scale"]
    parents = [network(case, 1), network(case, 2)]
    parents[1].get_buffer("p").neg_()
    for method in RETROFITTING:
        result = METHODS[method](parents, FLAT, device="cpu", **OPTIONS[method])
        level = result.levels[0]
        both = torch.cat([parent.p[0] for parent in parents])
        means = torch.stack([both[level.labels == k].mean() for k in range(8)])
        torch.testing.assert_close(result.model.get_buffer("p")[0], means)


@torch.no_grad()
def test_a_gate_equals_plain_least_squares_with_both_halves_in_one_order():
    mine, theirs = (network(STRUCTURED["gate"], seed) for seed in (1, 2))
    fused = copy.deepcopy(mine)
    left, right = (projected(FLAT, net.a(FLAT)) for net in (mine, theirs))
    order = matched(*(torch.cat([z[:, :4], z[:, 4:]]) for z in (left, right)))
    order = torch.cat([order, order + 4])
    put(fused.a, least_squares(FLAT, (mine.a(FLAT) + theirs.a(FLAT)[:, order]) / 2))
    h = [left * right.sigmoid() for left, right in (net.a(FLAT).chunk(2, 1) for net in (fused, mine, theirs))]
    put(fused.c, least_squares(h[0], (mine.c(h[1]) + theirs.c(h[2])) / 2))
    result = METHODS["HF-Linear"]([mine, theirs], FLAT, ridge=0.0, device="cpu")
    assert_same_tensors(result.model, fused, 1e-7)


def test_other_kinds_in_another_parent_are_refused():
    parents = [network(STRUCTURED["gate"], 1), network((lambda net, x: net.c(net.a(x)[:, :4]), two(4)), 2)]
    with pytest.raises(ValueError, match="level 'a': its neurons are of different kinds in a parent"):
        fuse(parents, FLAT)
