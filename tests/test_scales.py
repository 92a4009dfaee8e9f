"""Layer scales, axes in another order before a sum (ConvNeXt), and layers behind which a network goes on without weights."""

import copy
from functools import partial

import pytest
import torch
import torchvision
from torch import nn
from torchvision.models.convnext import CNBlockConfig, ConvNeXt

from retrofit_core.methods import METHODS
from retrofit_core.networks.levels import compose, partition
from retrofit_core.networks.symmetry import shuffled, tensors
from tests.networks import CNN_SHAPE, initialised, normal
from tests.properties import assert_close, assert_same_function, assert_same_tensors, order_of_second
from tests.test_blocks import flat, least_squares, patches, put

DATA = normal(60, *CNN_SHAPE)


class Scaled(nn.Module):
    """Two blocks on a stream: one whose layer sees channels last, one whose scale is reshaped, and a head that pools."""

    def __init__(self, width: int = 4, inner: int = 5, classes: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, width, 3, padding=1)
        self.wide, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)
        self.first, self.second = nn.Parameter(torch.ones(width, 1, 1)), nn.Parameter(torch.ones(width))
        self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        x = self.stem(x).relu()
        h = self.narrow(self.wide(x.permute(0, 2, 3, 1)).relu()).permute(0, 3, 1, 2)
        x = x + self.first * h
        x = self.conv(x.relu()).mul(self.second.reshape(1, -1, 1, 1)) + x
        return self.last(x.relu()).relu().mean((2, 3))


def scaled(seed=0, **widths):
    model = initialised(Scaled(**widths), seed)
    for number, scale in enumerate((model.first, model.second)):
        scale.data = 0.5 + normal(*scale.shape, seed=10 * seed + number).abs()
    return model


def states(model, x):
    """What each level gives, by name, as rows."""
    s = {"stem": model.stem(x)}
    h = s["stem"].relu()
    s["wide"] = model.wide(h.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    inner = model.narrow(s["wide"].permute(0, 2, 3, 1).relu()).permute(0, 3, 1, 2)
    s["narrow"] = h + model.first * inner
    s["conv"] = s["narrow"] + model.conv(s["narrow"].relu()) * model.second[:, None, None]
    s["last"] = model.last(s["conv"].relu())
    return {name: flat(state) for name, state in s.items()}


@torch.no_grad()
def plainly(parents, x, order):
    """The fused network for given orders of parent 1's neurons, without a ridge and with scales of 1, layer by layer."""
    fused = copy.deepcopy(parents[0])
    for scale in (fused.first, fused.second):
        scale.fill_(1)
    mine, theirs = (states(parent, x) for parent in parents)

    def mean(name, group):
        return (mine[name] + theirs[name][:, order[group]]) / 2

    put(fused.stem, least_squares(patches(fused.stem, x), mean("stem", "stream")))
    h = fused.stem(x).relu()
    put(fused.wide, least_squares(flat(h), mean("wide", "wide")))
    inner = fused.wide(h.permute(0, 2, 3, 1)).relu()
    put(fused.narrow, least_squares(inner.flatten(0, 2), mean("narrow", "stream") - flat(h)))
    h = h + fused.narrow(inner).permute(0, 3, 1, 2)
    V = torch.linalg.lstsq(patches(fused.conv, h.relu()), mean("conv", "stream") - flat(h), driver="gelsd").solution
    fused.conv.weight.copy_(V.T.reshape(fused.conv.weight.shape))
    h = h + fused.conv(h.relu())
    put(fused.last, least_squares(flat(h.relu()), (mine["last"] + theirs["last"]) / 2))
    return fused


def test_equals_plain_least_squares_layer_by_layer():
    parents = [scaled(1), scaled(2)]
    result = METHODS["HF-Linear"](parents, DATA, ridge=0.0, device="cpu")
    assert [level.name for level in result.levels] == ["stem", "wide", "narrow", "conv", "last"]
    assert [level.stream for level in result.levels] == ["stem", "", "stem", "stem", ""]
    assert all(level.missing_error > level.approximation_error for level in result.levels[2:4])
    order = {"stream": order_of_second(result.levels[0]), "wide": order_of_second(result.levels[1])}
    fused = plainly(parents, DATA, order)
    assert_same_tensors(result.model, fused, 1e-7)


@pytest.mark.parametrize("method", ["HF-Linear", "KF-Linear"])
def test_a_shuffled_copy_is_found_again(method):
    model = scaled(3)
    twin = shuffled(model, DATA, torch.Generator().manual_seed(5))
    result = METHODS[method]([model, twin], DATA, ridge=0.0, device="cpu")
    assert all(level.grouping_error <= 1e-9 * level.energy for level in result.levels)
    assert_same_function(result.model, model, DATA, 1e-6)


def test_scales_are_folded_for_the_closed_form_alone_and_put_back_as_ones():
    model, x = scaled(1), DATA[:5]
    before = {name: tensor.clone() for name, tensor in tensors(model).items()}
    levels = partition(model, x, "layers")
    assert [len(level.folds) for level in levels] == [0, 0, 1, 1, 0]
    assert_close(compose(levels, x), model(x), 1e-12)
    assert all(torch.equal(tensor, before[name]) for name, tensor in tensors(model).items())
    assert not any(level.folds for level in partition(model, x))
    for level in levels:
        level.put_back()
    assert (model.first == 1).all() and (model.second == 1).all()
    assert_close(model(x), compose(levels, x), 1e-12)


class Kept(nn.Module):
    """Scales that must stay: one of a layer that is read elsewhere, one that is used twice, one along positions."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.last = nn.Linear(4, 3)
        self.one, self.two = nn.Parameter(torch.rand(4)), nn.Parameter(torch.rand(4))
        self.along = nn.Parameter(torch.rand(4, 1))

    def forward(self, x):
        a = self.a(x)
        x = a + a * self.one
        x = self.b(x) * self.two + x * self.two
        x = self.c(x) * self.along
        return self.last(x.mean(1))


def test_other_products_stay():
    model = initialised(Kept(), 1)
    levels = partition(model, normal(5, 4, 4), "layers")
    assert not any(level.folds for level in levels)
    assert_close(compose(levels, normal(5, 4, 4)), model(normal(5, 4, 4)), 1e-12)


def test_what_follows_the_last_layer_is_not_fitted():
    parents = [scaled(1), scaled(2)]
    (*_, head) = partition(parents[0], DATA[:2], "layers")
    assert (head.output.tail, head.width, head.axis, head.positions) == (True, 3, 1, 49)
    result = METHODS["KF-Linear"](parents, DATA, device="cpu")
    report = result.levels[-1]
    with torch.no_grad():
        z, fused = [states(parent, DATA)["last"] for parent in parents], states(result.model, DATA)["last"]
    gap = (fused - (z[0] + z[1]) / 2).square().sum().item() * report.scores.sum().item() / 3
    assert report.approximation_error == pytest.approx(gap, rel=1e-6)
    assert report.rows == 60 * 49


def probabilities(seed):
    layers = [nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3), nn.LogSoftmax(1)]
    return initialised(nn.Sequential(*layers), seed)


def test_networks_that_end_with_probabilities_are_fitted_at_their_logits():
    model, x = probabilities(1), normal(40, 6)
    twin = shuffled(model, x, torch.Generator().manual_seed(5))
    assert_same_function(METHODS["HF-Linear"]([model, twin], x, ridge=0.0, device="cpu").model, model, x, 1e-8)


def test_a_last_layer_that_makes_no_classes_is_refused():
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Flatten())
    with pytest.raises(ValueError, match="level '2' is not affine .*'_3' comes after its affine layer"):
        METHODS["KF-Linear"]([initialised(copy.deepcopy(model), k) for k in range(2)], DATA, device="cpu")


def convnext():
    blocks = [CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)]
    return ConvNeXt(blocks, num_classes=3, norm_layer=None, layer_scale=1.0)


NETWORKS = {
    "convnext": (convnext, 64),
    "squeezenet": (partial(torchvision.models.squeezenet1_1, num_classes=3), 64),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_torchvision_are_found_again(name):
    make, size = NETWORKS[name]
    torch.manual_seed(0)
    model, x = initialised(make(), 1), normal(8, 3, size, size)
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith("layer_scale"):
            parameter.data = 0.5 + normal(*parameter.shape, seed=3).abs()
    twin = shuffled(model, x, torch.Generator().manual_seed(5))
    result = METHODS["KF-Linear"]([model, twin], x, ridge=0.0, device="cpu")
    assert_same_function(result.model, model, x, 1e-6)
