"""The closed form inside of residual blocks: against plain least squares, twins, budgets, going on, the analysis."""

import copy

import pytest
import torch
from torch import nn

from retrofit_core.methods import METHODS
from tests.networks import CNN_SHAPE, initialised, labels, normal
from tests.plain import flat, least_squares, patches, put
from tests.properties import assert_same_tensors

DATA = normal(60, *CNN_SHAPE)


class Blocks(nn.Module):
    """A stem, a block with an identity skip, a block with a projecting one, which runs first; no BatchNorm."""

    def __init__(self, width: int = 4, wide: int = 5, classes: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, width, 3, padding=1)
        self.a1, self.a2 = nn.Conv2d(width, 3, 3, padding=1), nn.Conv2d(3, width, 1)
        self.skip = nn.Conv2d(width, wide, 1, stride=2)
        self.b1, self.b2 = nn.Conv2d(width, 6, 3, 2, padding=1), nn.Conv2d(6, wide, 3, padding=1)
        self.fc = nn.Linear(wide, classes)

    def forward(self, x):
        x = self.stem(x).relu()
        x = (x + self.a2(self.a1(x).relu())).relu()
        carried = self.skip(x)
        x = (self.b2(self.b1(x).relu()) + carried).relu()
        return self.fc(x.mean((2, 3)))


def blocks(seed=0, **widths):
    return initialised(Blocks(**widths), seed)


def states(model, x):
    """What each layer or sum computes, by name."""
    s = {"stem": model.stem(x)}
    h = s["stem"].relu()
    s["a1"] = model.a1(h)
    s["a"] = h + model.a2(s["a1"].relu())
    h = s["a"].relu()
    s["b1"] = model.b1(h)
    s["b"] = model.b2(s["b1"].relu()) + model.skip(h)
    s["fc"] = model.fc(s["b"].relu().mean((2, 3)))
    return {name: flat(state) for name, state in s.items()}


@torch.no_grad()
def plainly(parents, x, order):
    """HF with uniform scores and no ridge, node by node, for given orders of parent 1's neurons at each level."""
    fused = copy.deepcopy(parents[0])
    mine, theirs = (states(parent, x) for parent in parents)

    def mean(name, level=None):
        return (mine[name] + theirs[name][:, order[level or name]]) / 2

    put(fused.stem, least_squares(patches(fused.stem, x), mean("stem")))
    h = fused.stem(x).relu()
    put(fused.a1, least_squares(patches(fused.a1, h), mean("a1")))
    put(fused.a2, least_squares(flat(fused.a1(h).relu()), mean("a", "a2") - flat(h)))
    h = (h + fused.a2(fused.a1(h).relu())).relu()
    put(fused.b1, least_squares(patches(fused.b1, h), mean("b1")))
    inputs = torch.cat([patches(fused.b2, fused.b1(h).relu()), patches(fused.skip, h)], 1)
    V = least_squares(inputs, mean("b", "b2"))
    put(fused.b2, torch.cat([V[: -1 - h.shape[1]], V[-1:]]))  # the first of both has the bias
    fused.skip.weight.copy_(V[-1 - h.shape[1] : -1].T.reshape(fused.skip.weight.shape))
    fused.skip.bias.zero_()
    pooled = (fused.b2(fused.b1(h).relu()) + fused.skip(h)).relu().mean((2, 3))
    put(fused.fc, least_squares(pooled, mean("fc")))
    return fused


def test_equals_plain_least_squares_node_by_node():
    parents = [blocks(1), blocks(2)]
    result = METHODS["HF-Linear"](parents, DATA, ridge=0.0, device="cpu")
    assert [level.name for level in result.levels] == ["stem", "a1", "a2", "b1", "b2", "fc"]
    assert [level.stream for level in result.levels] == ["stem", "", "stem", "", "", ""]
    assert [level.kind for level in result.levels] == [*["Conv2d"] * 4, "Conv2d + Conv2d", "Linear"]
    order = {level.name: level.labels.split(level.width) for level in result.levels}
    order = {name: second.argsort()[first] for name, (first, second) in order.items()}
    assert_same_tensors(result.model, plainly(parents, DATA, order), 1e-7)


@pytest.mark.slow
def test_streams_get_one_grouping_and_the_mean_of_their_scores():
    parents = [blocks(1), blocks(2)]
    options = {"importance": "conductance", "importance_data": [(DATA, labels(60, 3))] * 2}
    result = METHODS["KF-Linear"](parents, DATA, device="cpu", **options)
    stem, last = result.levels[0], result.levels[2]
    assert torch.equal(stem.labels, last.labels) and torch.equal(stem.scores, last.scores)
    assert last.grouping == {"algorithm": "stream"}
    assert stem.scores.sum() == pytest.approx(2.0)


class Normalised(nn.Module):
    """Subtracts numbers that it keeps from its inputs."""

    def __init__(self, mean=0.0):
        super().__init__()
        self.register_buffer("mean", torch.full((6,), mean))
        self.up, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.up(x - self.mean).relu())


def test_a_gradient_fit_keeps_the_numbers_that_parent_0_computes_with():
    one, other, x = initialised(Normalised(), 0), Normalised(0.7).double().eval(), normal(60, 6)
    other.load_state_dict({**one.state_dict(), "mean": other.mean})
    with torch.no_grad():
        other.up.bias += 0.7 * other.up.weight.sum(1)  # the same function
        fused = METHODS["KF-Gradient"]([one, other], x, device="cpu").model
        torch.testing.assert_close(fused(x), one(x))
