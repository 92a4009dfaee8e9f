"""Operations in place: networks that write into their tensors are fused as those that compute new ones."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from retrofit_core import ensemble
from retrofit_core.baselines.linear_probe import head_of
from retrofit_core.fusion.importance import Conductance
from retrofit_core.methods import METHODS
from retrofit_core.networks.levels import partition
from tests.marks import each_case, spread
from tests.networks import initialised, labels, normal
from tests.properties import assert_close, assert_reproduces
from tests.test_twins import EVERY


class Net(nn.Module):
    """The forward is given as a function of the network and its input; neurons are treated alike, in one order everywhere."""

    def __init__(self, forward) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(5, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.relu, self.drop = nn.ReLU(inplace=True), nn.Dropout(0.5, inplace=True)
        self.code = forward

    def forward(self, x):
        return self.code(self, x)


def behind_layers(net, x):
    return net.c(net.drop(net.relu(net.b(net.relu(net.a(x))))))


def thrown_away(net, x):
    h = net.a(x)
    net.relu(h)
    k = net.b(h)
    k.relu_()
    return net.c(k)


def by_function(net, x):
    h = F.relu_(net.a(x))
    k = net.b(h)
    F.relu(k, inplace=True)
    return net.c(torch.sigmoid_(k))


def two_names(net, x):
    h = net.a(x)
    same = h
    h += net.b(h.relu())
    return net.c(h.relu() + same)


def preactivation(net, x):
    h = net.a(x)
    return net.c(h + net.b(net.relu(h)))


def arithmetic(net, x):
    h = net.a(x)
    h *= 0.5
    h /= 0.25
    h **= 2
    h -= 1.0
    return net.c(net.b(h).clamp_(min=0).add_(1.0))


def its_input(net, x):
    x -= 0.5
    x.mul_(2.0)
    return net.c(net.b(net.a(x).relu()).relu())


def an_item(net, x):
    h = net.a(x)
    same = h
    h[:] = h * 2
    return net.c(net.b(same.relu()).relu())


def two_names_plain(net, x):
    h = net.a(x)
    h = h + net.b(h.relu())
    return net.c(h.relu() + h)


def preactivation_plain(net, x):
    h = net.a(x).relu()
    return net.c(h + net.b(h))


METHODS_OF_EACH_KIND = ("RegMean", "Average", "LP", "Ensemble-Logits", "KF-Linear", "PLeaS", "OTFusion")
#: Network -> the same function in new tensors.
PLAIN = {
    behind_layers: lambda net, x: net.c(net.b(net.a(x).relu()).relu()),
    thrown_away: lambda net, x: net.c(net.b(net.a(x).relu()).relu()),
    by_function: lambda net, x: net.c(net.b(net.a(x).relu()).relu().sigmoid()),
    two_names: two_names_plain,
    preactivation: preactivation_plain,
    arithmetic: lambda net, x: net.c(net.b((net.a(x) * 2) ** 2 - 1).clamp(min=0) + 1),
    its_input: lambda net, x: net.c(net.b(net.a((x - 0.5) * 2).relu()).relu()),
    an_item: lambda net, x: net.c(net.b((2 * net.a(x)).relu()).relu()),
}


def networks(code):
    """A network that writes, one that does not, and the first one with its neurons in another order."""
    model = initialised(Net(code), 1)
    plain = copy.deepcopy(model)
    plain.code = PLAIN[code]
    twin, order = copy.deepcopy(model), torch.randperm(6, generator=torch.Generator().manual_seed(2))
    for layer, reads in ((twin.a, False), (twin.b, True)):
        layer.weight.data, layer.bias.data = layer.weight[order].detach(), layer.bias[order].detach()
        if reads:
            layer.weight.data = layer.weight[:, order].detach()
    twin.c.weight.data = twin.c.weight[:, order].detach()
    return model, plain, twin


@pytest.mark.slow
@each_case("method, code", spread(EVERY, PLAIN, 2))
def test_permuted_twins_are_found_by_every_method(code, method):
    model, plain, twin = networks(code)
    x = normal(60, 5)
    with torch.no_grad():
        expected = plain(x)
        assert_close(twin(x.clone()), expected, 1e-12)
        given = x.clone()
        fused = EVERY[method]([model, twin], given, device="cpu").model
        assert torch.equal(given, x)
        assert_close(fused(x.clone()), expected, 1e-6)


@pytest.mark.slow
@each_case("code, method", spread(PLAIN, METHODS_OF_EACH_KIND, 3))
def test_other_parents_are_fused_as_networks_that_compute_new_tensors(code, method):
    (model, plain, _), x = networks(code), normal(60, 5)
    other = initialised(Net(code), 2)
    plain_other = copy.deepcopy(other)
    plain_other.code = PLAIN[code]
    fused, expected = (
        METHODS[method](parents, x.clone(), device="cpu").model for parents in ([model, other], [plain, plain_other])
    )
    with torch.no_grad():
        assert_close(fused(x.clone()), expected(x.clone()), 1e-8)


@each_case("code", PLAIN)
def test_levels_and_conductance_are_those_of_the_plain_network(code):
    (model, plain, _), x = networks(code), normal(8, 5)
    levels, y = partition(model, x[:2]), labels(8, 3)
    assert_reproduces(plain, levels, x)
    score = Conductance(steps=3)
    of_plain = partition(plain, x[:2])
    if len(levels) == len(of_plain):
        for one, two in zip(score.scores(levels, x, y).values, score.scores(of_plain, x, y).values, strict=True):
            assert_close(one, two, 1e-8)


def test_what_is_written_through_a_view_is_refused():
    def view(net, x):
        h = net.a(x)
        h[:, :2].mul_(3.0)
        return net.c(net.b(h).relu())

    model = initialised(Net(view), 1)
    for method in ("KF-Linear", "ZipIt", "OTFusion-Weights"):
        with pytest.raises(ValueError, match="writes into a part of a tensor"):
            METHODS[method]([model, copy.deepcopy(model)], normal(20, 5), device="cpu")


def test_a_module_that_is_taken_whole_may_write_into_its_input():
    class Whole(nn.Module):
        def forward(self, x):
            return x.clamp_(min=float(x.min() * 0))  # looks at contents, so it cannot be followed

    model = initialised(nn.Sequential(nn.Linear(5, 6), Whole(), nn.Linear(6, 6), Whole(), nn.Linear(6, 3)), 1)
    plain = copy.deepcopy(model)
    plain[1] = plain[3] = nn.ReLU()
    x = normal(40, 5)
    for method in ("KF-Gradient", "HF-Gradient"):
        parents = [[net, net_b] for net, net_b in ((model, other(model)), (plain, other(plain)))]
        options = {"epochs": 2, "device": "cpu", "boundaries": ["0", "2"]}
        fused, expected = (
            METHODS[method](pair, x, **options, **more).model
            for pair, more in zip(parents, ({"leaves": ["1", "3"]}, {}), strict=True)
        )
        with torch.no_grad():
            assert_close(fused(x), expected(x), 1e-8)


def other(model):
    return initialised(copy.deepcopy(model), 2)


def test_logits_that_are_changed_in_place_are_not_those_of_the_last_layer():
    def scaled(net, x):
        return net.c(net.a(x)).tanh_()

    with pytest.raises(ValueError, match="no head to train alone"):
        head_of(initialised(Net(scaled), 1), normal(4, 5))


def test_an_ensemble_gives_each_member_the_input_as_it_was():
    model, plain, _ = networks(its_input)
    x = normal(6, 5)
    with torch.no_grad():
        assert_close(ensemble([model, model], "logits")(x.clone()), plain(x), 1e-12)
