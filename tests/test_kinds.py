"""Levels whose neurons are of several kinds, which cannot be exchanged with each other: each kind is grouped by itself."""

import copy

import pytest
import torch
import torchvision
from torch import nn
from torchvision.models.shufflenetv2 import ShuffleNetV2

from retrofit_core.inspection.analysis import analyse
from retrofit_core.methods import METHODS
from retrofit_core.networks.symmetry import shuffled
from tests.flat import Kept, fuse
from tests.networks import CNN_SHAPE, initialised, labels, normal
from tests.properties import assert_same_function, assert_same_tensors
from tests.test_blocks import flat, least_squares, matched, patches, projected, put

DATA = normal(60, *CNN_SHAPE)
SKIPPED = 3


class Partial(nn.Module):
    """A layer half of whose channels go past a block (CSPNet), a block on the others, and what reads both side by side."""

    def __init__(self, width: int = 7, inner: int = 5, classes: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, width, 3, padding=1)
        self.wide, self.narrow = nn.Conv2d(width - SKIPPED, inner, 1), nn.Conv2d(inner, width - SKIPPED, 3, padding=1)
        self.last = nn.Conv2d(width, 6, 1)
        self.fc = nn.Linear(6, classes)

    def forward(self, x):
        x = self.stem(x).relu()
        past, h = x[:, :SKIPPED], x[:, SKIPPED:]
        h = h + self.narrow(self.wide(h).relu())
        x = self.last(torch.cat([h, past], 1)).relu()
        return self.fc(x.mean((2, 3)))


def partial(seed=0, **widths):
    return initialised(Partial(**widths), seed)


def states(model, x):
    """What each level gives, by name, as rows."""
    s = {"stem": model.stem(x)}
    h = s["stem"].relu()
    past, h = h[:, :SKIPPED], h[:, SKIPPED:]
    s["wide"] = model.wide(h)
    s["narrow"] = h + model.narrow(s["wide"].relu())
    s["last"] = model.last(torch.cat([s["narrow"], past], 1))
    s["fc"] = model.fc(s["last"].relu().mean((2, 3)))
    return {name: flat(state) for name, state in s.items()}


@torch.no_grad()
def plainly(parents, x):
    """HF with uniform scores and no ridge, layer by layer; the neurons of parent 1 in the order of parent 0's."""
    fused = copy.deepcopy(parents[0])
    mine, theirs = (states(parent, x) for parent in parents)
    order = {}

    def mean(name, order):
        return (mine[name] + theirs[name][:, order]) / 2

    def both(states):  # the kind of the stem's other neurons is made twice: there, and behind the block
        made = [states["stem"][:, SKIPPED:], states["narrow"]]
        sizes = [
            (mine[name][:, start:].square().sum() + theirs[name][:, start:].square().sum()).sqrt()
            for name, start in (("stem", SKIPPED), ("narrow", 0))
        ]
        return torch.cat([z / size for z, size in zip(made, sizes, strict=True)])

    inputs = patches(fused.stem, x)
    past = matched(*(projected(inputs, s["stem"])[:, :SKIPPED] for s in (mine, theirs)))
    stream = matched(both(mine), both(theirs))
    order["stem"] = torch.cat([past, SKIPPED + stream])
    put(fused.stem, least_squares(inputs, mean("stem", order["stem"])))
    h = fused.stem(x).relu()
    skip, h = h[:, :SKIPPED], h[:, SKIPPED:]
    order["wide"] = matched(projected(flat(h), mine["wide"]), projected(flat(h), theirs["wide"]))
    put(fused.wide, least_squares(flat(h), mean("wide", order["wide"])))
    inner = fused.wide(h).relu()
    put(fused.narrow, least_squares(patches(fused.narrow, inner), mean("narrow", stream) - flat(h)))
    h = torch.cat([h + fused.narrow(inner), skip], 1)
    order["last"] = matched(projected(flat(h), mine["last"]), projected(flat(h), theirs["last"]))
    put(fused.last, least_squares(flat(h), mean("last", order["last"])))
    put(fused.fc, least_squares(fused.last(h).relu().mean((2, 3)), (mine["fc"] + theirs["fc"]) / 2))
    order["narrow"] = stream
    return fused, order


def test_equals_plain_least_squares_kind_by_kind():
    parents = [partial(1), partial(2)]
    result = METHODS["HF-Linear"](parents, DATA, ridge=0.0, device="cpu")
    fused, order = plainly(parents, DATA)
    assert [level.name for level in result.levels] == ["stem", "wide", "narrow", "last", "fc"]
    for level in result.levels[:-1]:
        first, second = level.labels.split(level.width)
        assert torch.equal(first.argsort(), second[order[level.name]].argsort())
    assert_same_tensors(result.model, fused, 1e-7)


@pytest.mark.parametrize("method", ["HF-Linear", "KF-Linear"])
def test_a_shuffled_copy_is_found_again(method):
    model = partial(3)
    twin = shuffled(model, DATA, torch.Generator().manual_seed(5))
    for options in ({}, {"ridge": 0.0}):
        result = METHODS[method]([model, twin], DATA, device="cpu", **options)
        assert all(level.grouping_error <= 1e-9 * level.energy for level in result.levels)
    assert_same_function(result.model, model, DATA, 1e-6)


def test_neurons_of_one_kind_have_the_mean_of_their_scores_wherever_they_are_made():
    parents, data = [partial(1), partial(2)], (DATA, labels(60, 3))
    result = METHODS["KF-Linear"](parents, data, importance="conductance", importance_data="fusion", device="cpu")
    stem, narrow = (level.scores.view(2, -1) for level in (result.levels[0], result.levels[2]))
    assert torch.equal(stem[:, SKIPPED:], narrow)
    first, second = (result.levels[index].labels.view(2, -1) for index in (0, 2))
    assert torch.equal(first[:, SKIPPED:] - SKIPPED, second)
    assert (first[:, :SKIPPED] < SKIPPED).all()


def test_widths_may_differ_and_a_stopped_run_goes_on():
    parents, target = [partial(1), partial(2, width=9)], partial(3, width=8)
    result = METHODS["KF-Linear"](parents, DATA, target=target, device="cpu")
    assert [level.width for level in result.levels] == [8, 5, 5, 6, 3]
    with pytest.raises(ValueError, match="level 'stem': hungarian pairs exactly two parents"):
        METHODS["HF-Linear"](parents, DATA, target=target, device="cpu")
    journal = Kept()
    whole = fuse(parents[:1] * 2, DATA, device="cpu", journal=journal)
    resumed = fuse(parents[:1] * 2, DATA, device="cpu", journal=Kept(journal.finished[:2]))
    assert_same_tensors(resumed.model, whole.model)


def test_the_analysis_knows_them():
    parents, data = [partial(1).float(), partial(2).float()], (DATA.float(), labels(60, 3))
    result = METHODS["KF-Linear"](parents, data, device="cpu")
    for level, report in zip(analyse(parents, result, data).levels, result.levels, strict=True):
        assert torch.equal(level.labels["uniform"][0], report.labels)


def small():
    return ShuffleNetV2([1, 2, 1], [8, 16, 24, 32, 40], num_classes=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [small, pytest.param(lambda: torchvision.models.shufflenet_v2_x0_5(num_classes=3), marks=pytest.mark.long)]
)
def test_shufflenet_is_found_again(make):
    torch.manual_seed(0)
    model, x = initialised(make(), 1), normal(8, 3, 64, 64)
    twin = shuffled(model, x, torch.Generator().manual_seed(5))
    result = METHODS["KF-Linear"]([model, twin], x, ridge=0.0, device="cpu")
    assert_same_function(result.model, model, x, 1e-6)
