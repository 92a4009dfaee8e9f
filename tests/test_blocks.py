"""The closed form inside of residual blocks: against plain least squares, twins, budgets, going on, the analysis."""

import copy

import pytest
import torch
from torch import nn

from retrofit_core.data import Images
from retrofit_core.data.images import in_memory
from retrofit_core.inspection.analysis import analyse
from retrofit_core.methods import METHODS
from tests.families import of_spec
from tests.networks import CNN_SHAPE, VGG_SHAPE, initialised, labels, normal
from tests.plain import flat, least_squares, matched, patches, projected, put
from tests.properties import assert_same_function, assert_same_tensors

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
def plainly(parents, x):
    """HF with uniform scores and no ridge, node by node: neurons matched by projected distance, the stream's by both of its
    states; the labels of parent 1's neurons and the fused network."""
    fused = copy.deepcopy(parents[0])
    mine, theirs = (states(parent, x) for parent in parents)
    order = {}

    def mean(name, group):
        return (mine[name] + theirs[name][:, order[group]]) / 2

    def scaled(states):
        sizes = [(mine[name].square().sum() + theirs[name].square().sum()).sqrt() for name in ("stem", "a")]
        return torch.cat([states[name] / size for name, size in zip(("stem", "a"), sizes, strict=True)])

    order["stream"] = matched(scaled(mine), scaled(theirs))
    put(fused.stem, least_squares(patches(fused.stem, x), mean("stem", "stream")))
    h = fused.stem(x).relu()
    inputs = patches(fused.a1, h)
    order["a1"] = matched(projected(inputs, mine["a1"]), projected(inputs, theirs["a1"]))
    put(fused.a1, least_squares(inputs, mean("a1", "a1")))
    put(fused.a2, least_squares(flat(fused.a1(h).relu()), mean("a", "stream") - flat(h)))
    h = (h + fused.a2(fused.a1(h).relu())).relu()
    inputs = patches(fused.b1, h)
    order["b1"] = matched(projected(inputs, mine["b1"]), projected(inputs, theirs["b1"]))
    put(fused.b1, least_squares(inputs, mean("b1", "b1")))
    inputs = torch.cat([patches(fused.b2, fused.b1(h).relu()), patches(fused.skip, h)], 1)
    order["b"] = matched(projected(inputs, mine["b"]), projected(inputs, theirs["b"]))
    V = least_squares(inputs, mean("b", "b"))
    put(fused.b2, torch.cat([V[: -1 - h.shape[1]], V[-1:]]))  # the first of both has the bias
    fused.skip.weight.copy_(V[-1 - h.shape[1] : -1].T.reshape(fused.skip.weight.shape))
    fused.skip.bias.zero_()
    pooled = (fused.b2(fused.b1(h).relu()) + fused.skip(h)).relu().mean((2, 3))
    put(fused.fc, least_squares(pooled, (mine["fc"] + theirs["fc"]) / 2))
    return fused, order


def test_equals_plain_least_squares_node_by_node():
    parents = [blocks(1), blocks(2)]
    result = METHODS["HF-Linear"](parents, DATA, ridge=0.0, device="cpu")
    fused, order = plainly(parents, DATA)
    names = ["stem", "a1", "a2", "b1", "b2", "fc"]
    assert [level.name for level in result.levels] == names
    assert [level.stream for level in result.levels] == ["stem", "", "stem", "", "", ""]
    assert [level.kind for level in result.levels] == [*["Conv2d"] * 4, "Conv2d + Conv2d", "Linear"]
    for level, group in zip(result.levels[:-1], ["stream", "a1", "stream", "b1", "b"], strict=True):
        first, second = level.labels.split(level.width)
        assert torch.equal(first.argsort(), second[order[group]].argsort())
    assert_same_function(result.model, fused, normal(9, *CNN_SHAPE, seed=5), 1e-8)
    assert_same_tensors(result.model, fused, 1e-7)


def test_streams_get_one_grouping_and_the_mean_of_their_scores():
    parents = [blocks(1), blocks(2)]
    options = {"importance": "conductance", "importance_data": [(DATA, labels(60, 3))] * 2}
    result = METHODS["KF-Linear"](parents, DATA, device="cpu", **options)
    stem, last = result.levels[0], result.levels[2]
    assert torch.equal(stem.labels, last.labels) and torch.equal(stem.scores, last.scores)
    assert last.grouping == {"algorithm": "stream"}
    assert stem.scores.sum() == pytest.approx(2.0)


def test_networks_whose_skips_join_other_layers_are_refused():
    class Other(Blocks):
        def forward(self, x):
            x = self.stem(x).relu()
            x = self.a2(self.a1(x).relu()).relu()  # no skip
            x = (self.b2(self.b1(x).relu()) + self.skip(x)).relu()
            return self.fc(x.mean((2, 3)))

    with pytest.raises(ValueError, match="skips join them to others"):
        METHODS["KF-Linear"]([blocks(1), initialised(Other(), 2)], DATA, device="cpu")


@pytest.fixture(scope="module")
def analysed():
    make = of_spec(architecture="resnet", layers=[1, 1], width=4, classes=4, size=8)
    parents = [make().float(), initialised(make(), 7).float()]
    x, y = normal(40, *VGG_SHAPE).float(), labels(40, 4)
    pixels = (normal(50, *VGG_SHAPE) * 40 + 128).clamp(0, 255).to(torch.uint8)
    content = in_memory(pixels, labels(50, 4))
    test = Images(*content, classes=tuple("abcd"), name="noise", split="test", mean=(0.5,), std=(0.2,))
    result = METHODS["KF-Linear"](parents, (x, y), device="cpu")
    return result, analyse(parents, result, (x, y), test=test)


@pytest.mark.slow
def test_the_analysis_knows_levels_inside_of_blocks(analysed):
    result, analysis = analysed
    assert [level.name for level in analysis.levels] == [level.name for level in result.levels]
    assert len(analysis.accuracy) == len(result.levels) + 1
    for level, report in zip(analysis.levels, result.levels, strict=True):
        assert level.plane["quadratic"][0] * report.energy == pytest.approx(report.approximation_error, rel=1e-3)
    stem, last = analysis.levels[0], analysis.levels[2]
    assert all(torch.equal(stem.labels[name], groups) for name, groups in last.labels.items())
    assert "deeplift" in analysis.missing
