"""Depthwise convolutions in closed form: each fused channel fits its own kernel to its own target."""

import copy

import pytest
import torch
import torchvision
from torch import nn
from torch.nn import functional as F

from retrofit_core.fusion.moments import PartSums, approximation_error, cross_error, solve, unavoidable_error
from retrofit_core.fusion.network_levels import cut_into_levels
from retrofit_core.fusion.targets import Targets, weighted_means
from retrofit_core.inspection.analysis import analyse
from retrofit_core.methods import METHODS
from retrofit_core.networks.levels import partition
from retrofit_core.networks.symmetry import shuffled
from tests.networks import CNN_SHAPE, initialised, labels, normal
from tests.properties import assert_close, assert_same_function, assert_same_tensors, order_of_second
from tests.test_blocks import flat, least_squares, patches, put

DATA = normal(60, *CNN_SHAPE)


class Inverted(nn.Module):
    """A stem, an inverted residual block whose middle works channel by channel, a gate, and a sum behind a depthwise layer."""

    def __init__(self, width: int = 4, wide: int = 6, classes: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, width, 3, padding=1)
        self.expand, self.shrink = nn.Conv2d(width, wide, 1), nn.Conv2d(wide, width, 1)
        self.middle = nn.Conv2d(wide, wide, 3, stride=1, padding=1, groups=wide)
        self.last = nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False)
        self.fc = nn.Linear(width, classes)

    def forward(self, x):
        x = self.stem(x).relu()
        x = x + self.shrink(self.middle(self.expand(x).relu()).relu())
        x = x + self.last(x.relu())
        return self.fc(x.relu().mean((2, 3)))


def inverted(seed=0, **widths):
    return initialised(Inverted(**widths), seed)


def states(model, x):
    """What each level gives, by name, as rows."""
    s = {"stem": model.stem(x)}
    h = s["stem"].relu()
    s["expand"] = model.expand(h)
    s["middle"] = model.middle(s["expand"].relu())
    s["shrink"] = h + model.shrink(s["middle"].relu())
    s["last"] = s["shrink"] + model.last(s["shrink"].relu())
    s["fc"] = model.fc(s["last"].relu().mean((2, 3)))
    return {name: flat(state) for name, state in s.items()}


def by_channel(layer, h, targets):
    """Each channel's kernel by plain least squares over its own patches."""
    for k in range(h.shape[1]):
        columns = F.unfold(h[:, k : k + 1], layer.kernel_size, padding=layer.padding).transpose(1, 2).flatten(0, 1)
        if layer.bias is None:
            V = torch.linalg.lstsq(columns, targets[:, k], driver="gelsd").solution
            layer.weight[k] = V.reshape(layer.weight[k].shape)
        else:
            V = least_squares(columns, targets[:, k : k + 1])[:, 0]
            layer.weight[k], layer.bias[k] = V[:-1].reshape(layer.weight[k].shape), V[-1]


@torch.no_grad()
def plainly(parents, x, order):
    """The fused network for given orders of parent 1's neurons, without a ridge, layer by layer."""
    fused = copy.deepcopy(parents[0])
    mine, theirs = (states(parent, x) for parent in parents)

    def mean(name, group):
        return (mine[name] + theirs[name][:, order[group]]) / 2

    put(fused.stem, least_squares(patches(fused.stem, x), mean("stem", "stream")))
    h = fused.stem(x).relu()
    put(fused.expand, least_squares(flat(h), mean("expand", "inner")))
    inner = fused.expand(h).relu()
    by_channel(fused.middle, inner, mean("middle", "inner"))
    put(fused.shrink, least_squares(flat(fused.middle(inner).relu()), mean("shrink", "stream") - flat(h)))
    h = h + fused.shrink(fused.middle(inner).relu())
    by_channel(fused.last, h.relu(), mean("last", "stream") - flat(h))
    h = h + fused.last(h.relu())
    put(fused.fc, least_squares(h.relu().mean((2, 3)), (mine["fc"] + theirs["fc"]) / 2))
    return fused


def test_equals_plain_least_squares_channel_by_channel():
    parents = [inverted(1), inverted(2)]
    result = METHODS["HF-Linear"](parents, DATA, ridge=0.0, device="cpu")
    assert [level.name for level in result.levels] == ["stem", "expand", "middle", "shrink", "last", "fc"]
    assert [level.stream for level in result.levels] == ["stem", "expand", "expand", "stem", "stem", ""]
    order = {"stream": order_of_second(result.levels[0]), "inner": order_of_second(result.levels[1])}
    fused = plainly(parents, DATA, order)
    assert_same_tensors(result.model, fused, 1e-7)


def test_errors_are_those_of_what_comes_out():
    parents = [inverted(1), inverted(2)]
    result = METHODS["KF-Linear"](parents, DATA, device="cpu")
    with torch.no_grad():
        s, fused = [states(parent, DATA) for parent in parents], states(result.model, DATA)
    for level in (result.levels[2], result.levels[4]):
        z = torch.cat([state[level.name] for state in s], 1)
        targets = weighted_means(level.labels, level.scores, level.width)
        gap = ((fused[level.name] - z @ targets.A).square().sum(0) * targets.totals).sum().item()
        assert level.approximation_error == pytest.approx(gap, rel=1e-6)
        cost = ((fused[level.name][:, level.labels] - z).square().sum(0) * level.scores).sum().item()
        assert level.cost == pytest.approx(cost, rel=1e-6)
        assert 0 < level.unavoidable_error <= level.cost


def test_sums_and_errors_against_loops():
    """Four channels of three inputs each, five neurons, targets that are no means."""
    channels, scores = torch.tensor([0, 1, 1, 2, 3]), torch.rand(5, generator=torch.Generator().manual_seed(1)).double()
    x, z = normal(40, 4, 3), normal(40, 5, seed=1)
    x[..., -1] = 1
    sums = PartSums(channels, 4, 3, bias=True)
    for part in (slice(0, 13), slice(13, 40)):
        sums.add(z[part], x[part])
    moments = sums.finish()
    A = weighted_means(channels, scores, 4).A
    A[1:3, 1] = torch.tensor([0.9, 0.4], dtype=torch.float64)
    targets = Targets(A, weighted_means(channels, scores, 4).totals)
    for ridge in (0.0, 2.0, "0.3x"):
        solution = solve(moments, ridge)
        V = solution.weights(A)
        f = torch.einsum("nkp,pk->nk", x, V)
        for k in range(4):
            energy = x[:, k, :2].square().sum(0).mean().item()
            lam = {0.0: 0.0, 2.0: 2.0, "0.3x": 0.3 * energy}[ridge]
            xx = x[:, k].T @ x[:, k] + lam * torch.diag(torch.tensor([1.0, 1.0, 0.0])).double()
            assert_close(V[:, k], torch.linalg.solve(xx, x[:, k].T @ (z @ A[:, k])), 1e-9)
        missed = (f - z @ A).square().sum(0)
        assert_close(solution.missed(A, V), missed, 1e-9)
        assert approximation_error(moments, targets, V) == pytest.approx((missed @ targets.totals).item(), rel=1e-9)
        cross = 2 * (scores * ((f - z @ A)[:, channels] * ((z @ A)[:, channels] - z)).sum(0)).sum().item()
        assert cross_error(moments, scores, channels, targets, V) == pytest.approx(cross, rel=1e-9)
    left = sum(
        scores[j]
        * (z[:, j] - x[:, channels[j]] @ torch.linalg.lstsq(x[:, channels[j]], z[:, j]).solution).square().sum()
        for j in range(5)
    )
    assert unavoidable_error(moments, scores) == pytest.approx(float(left), rel=1e-9)
    halves = [PartSums(channels, 4, 3, bias=True) for _ in range(2)]
    for half, part in zip(halves, (slice(0, 13), slice(13, 40)), strict=True):
        half.add(z[part], x[part])
    together = halves[0].finish() + halves[1].finish()
    assert_close(solve(together, 1.0).weights(A), solve(moments, 1.0).weights(A), 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["HF-Linear", "KF-Linear"])
def test_a_shuffled_copy_is_found_again(method):
    model = inverted(3)
    twin = shuffled(model, DATA, torch.Generator().manual_seed(5))
    for options in ({}, {"ridge": 0.0}):
        result = METHODS[method]([model, twin], DATA, device="cpu", **options)
        assert all(level.grouping_error <= 1e-9 * level.energy for level in result.levels)
    assert_same_function(result.model, model, DATA, 1e-6)


class Dense(nn.Module):
    """Layers that read all layers before them, side by side, behind a BatchNorm of their own (DenseNet)."""

    def __init__(self, growth=3) -> None:
        super().__init__()
        self.stem, self.first = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, growth, 3, padding=1)
        self.second, self.mix = nn.Conv2d(4 + growth, growth, 1), nn.Conv2d(growth + 4 + growth, 6, 1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (4, 4 + growth, growth + 4 + growth))
        self.fc = nn.Linear(6, 3)

    def forward(self, x):
        x = self.stem(x)
        y = self.first(self.norms[0](x).relu())
        x = torch.cat([x, y], 1)
        z = self.second(self.norms[1](x).relu())
        x = torch.cat([z, x], 1)
        return self.fc(self.mix(self.norms[2](x).relu()).relu().mean((2, 3)))


def dense(seed=0, **widths):
    return initialised(Dense(**widths), seed)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["HF-Linear", "KF-Linear"])
def test_neurons_of_several_levels_side_by_side_keep_their_groups(method):
    model = dense(3)
    twin = shuffled(model, DATA, torch.Generator().manual_seed(5))
    result = METHODS[method]([model, twin], DATA, ridge=0.0, device="cpu")
    names = ["stem", "norms.0", "first", "norms.1", "second", "norms.2", "mix", "fc"]
    assert [level.name for level in result.levels] == names
    assert [level.kind for level in result.levels][:4] == ["Conv2d", "BatchNorm2d", "Conv2d", "BatchNorm2d"]
    assert_same_function(result.model, model, DATA, 1e-6)
    assert all(level.grouping_error <= 1e-9 * level.energy for level in result.levels)
    stem, first, second, last = (result.levels[k].labels.split(result.levels[k].width) for k in (0, 2, 4, 5))
    for k in range(2):  # z, x, y
        assert torch.equal(last[k], torch.cat([second[k], 3 + stem[k], 7 + first[k]]))


def test_a_norm_in_front_of_a_layer_is_fitted_channel_by_channel():
    parents = [dense(1), dense(2)]
    result = METHODS["HF-Linear"](parents, DATA, ridge=0.0, device="cpu")
    level = result.levels[1]
    order = level.labels.split(4)[1].argsort()
    with torch.no_grad():
        z = [flat(parent.norms[0](parent.stem(DATA))) for parent in parents]
        h, targets = flat(result.model.stem(DATA)), (z[0] + z[1][:, order]) / 2
        for k in range(4):
            V = least_squares(h[:, k : k + 1], targets[:, k : k + 1])
            made = torch.cat([h[:, k : k + 1], torch.ones(len(h), 1).double()], 1) @ V
            assert_close(flat(result.model.norms[0](result.model.stem(DATA)))[:, k], made[:, 0], 1e-8)
    assert result.model.state_dict().keys() == parents[0].state_dict().keys()


def test_widths_of_what_is_concatenated_may_differ():
    result = METHODS["KF-Linear"]([dense(1), dense(2, growth=5)], DATA, target=dense(3, growth=4), device="cpu")
    assert [level.width for level in result.levels] == [4, 4, 4, 8, 4, 12, 6, 3]


MOBILE = {
    "mobilenet_v2": lambda: torchvision.models.mobilenet_v2(num_classes=4, width_mult=0.25),
    "mobilenet_v3_small": lambda: torchvision.models.mobilenet_v3_small(num_classes=4),
    "mnasnet": lambda: torchvision.models.mnasnet0_5(num_classes=4),
}


@pytest.mark.long
@pytest.mark.parametrize("name", MOBILE)
def test_mobile_networks_are_found_again(name):
    torch.manual_seed(0)
    model, x = initialised(MOBILE[name](), 1), normal(6, 3, 64, 64)
    twin = shuffled(model, x, torch.Generator().manual_seed(5))
    result = METHODS["KF-Linear"]([model, twin], x, ridge=0.0, device="cpu")
    assert_same_function(result.model, model, x, 1e-6)


@pytest.mark.slow
def test_a_strong_ridge_towards_the_parents_gives_their_kernels():
    model = inverted(3)
    fused = METHODS["HF-Linear"]([model, copy.deepcopy(model)], DATA, toward="parents", ridge=1e12, device="cpu").model
    assert_same_function(fused, model, DATA, 1e-5)
    fused = METHODS["HF-Linear"]([model, copy.deepcopy(model)], DATA, refit=False, device="cpu").model
    assert_same_function(fused, model, DATA, 1e-8)


def test_widths_may_differ():
    result = METHODS["KF-Linear"]([inverted(1), inverted(2, wide=9)], DATA, target=inverted(3, wide=8), device="cpu")
    assert [level.width for level in result.levels] == [4, 8, 8, 4, 4, 3]


def test_weights_reproduce_the_level():
    model = inverted(1)
    with torch.no_grad():
        boundary = DATA[:3]
        for level in partition(model, boundary, "layers"):
            if level.form.channelwise:
                (tensor,), stream = level.form.read(boundary)
                made = torch.einsum("nkp,pk->nk", level.form.rows([tensor], ones=level.form.bias), level.weights())
                made = made + (0 if stream is None else flat(stream))
                assert_close(made, flat(level.of(level.module(boundary))), 1e-12)
            boundary = level.module(boundary)


@pytest.mark.slow
def test_the_analysis_knows_them():
    parents, data = [inverted(1).float(), inverted(2).float()], (DATA.float(), labels(60, 3))
    result = METHODS["KF-Linear"](parents, data, device="cpu")
    analysis = analyse(parents, result, data)
    for level, report in zip(analysis.levels, result.levels, strict=True):
        assert level.plane["quadratic"][0] * report.energy == pytest.approx(report.approximation_error, rel=1e-3)


class Positions(nn.Module):
    """A stream of channels to which a layer that mixes positions is added."""

    def __init__(self):
        super().__init__()
        self.first, self.mix, self.last = nn.Conv2d(2, 5, 1), nn.Linear(49, 49), nn.Linear(5, 3)

    def forward(self, x):
        x = self.first(x).flatten(2)
        return self.last((x + self.mix(x.relu())).mean(2))


def test_layers_that_mix_positions_are_refused():
    with pytest.raises(ValueError, match="parent 0: the neurons of level 'mix' cannot change places"):
        METHODS["KF-Linear"]([initialised(Positions(), k) for k in range(2)], DATA, device="cpu")


class Ghost(nn.Module):
    """A layer and what is made of it channel by channel, side by side, are added to a layer of twice as many channels."""

    def __init__(self):
        super().__init__()
        self.wide, self.primary, self.ghost = (
            nn.Conv2d(2, 8, 1),
            nn.Conv2d(8, 4, 1),
            nn.Conv2d(4, 4, 3, padding=1, groups=4),
        )
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        x = self.wide(x)
        y = self.primary(x.relu())
        return self.last((x + torch.cat([y, self.ghost(y.relu())], 1)).relu().mean((2, 3)))


@pytest.mark.parametrize("method", ["HF-Linear", "KF-Linear"])
def test_levels_may_make_several_channels_for_each_neuron(method):
    model = initialised(Ghost(), 3)
    twin = shuffled(model, DATA, torch.Generator().manual_seed(5))
    result = METHODS[method]([model, twin], DATA, ridge=0.0, device="cpu")
    assert_same_function(result.model, model, DATA, 1e-6)
    for own in result.levels[0].labels.split(8):
        assert torch.equal(own[4:], own[:4] + 4)


def test_channels_of_the_input_are_refused():
    model = nn.Sequential(nn.Conv2d(2, 2, 3, groups=2), nn.ReLU(), nn.Conv2d(2, 4, 1), nn.Flatten(), nn.Linear(100, 3))
    parents = [initialised(copy.deepcopy(model), k) for k in range(2)]
    with pytest.raises(ValueError, match="level '0' is not affine .* on channels that no level before it makes"):
        METHODS["KF-Linear"](parents, DATA, device="cpu")
    cut = cut_into_levels(parents, DATA, target=None, device=torch.device("cpu"), boundaries="preactivations")
    assert [len(level.form.layers) for level in cut.fused] == [0, 1, 1]
