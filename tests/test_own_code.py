"""Networks whose code is not plain: replaced forwards, and subclasses of torch's layers that use their weights otherwise."""

import copy
import functools
import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from retrofit_core import permuted
from retrofit_core.methods import METHODS
from tests.marks import each_case, spread
from tests.networks import labels, normal
from tests.properties import kept_norms
from tests.test_contract import options_for

pytestmark = pytest.mark.slow

X, Y = normal(60, 6).float(), labels(60, 3)


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


def twice(old, x):
    return old(x) * 2


def closure(net):
    old = net.forward
    net.forward = lambda x: old(x) * 2


def in_list(net):
    olds = [net.forward]
    net.forward = lambda x: olds[0](x) * 2


def inner(net):
    closure(net[2])


PATCHES = (closure, in_list, inner)


@each_case("patch, name", spread(PATCHES, ["Average", "KF-Linear", "KD"], 1))
def test_a_forward_that_holds_its_network_is_refused(patch, name):
    """A copy with other weights would compute the same."""
    nets = [network(seed) for seed in (1, 2)]
    for net in nets:
        patch(net)
    with pytest.raises(ValueError, match="weights of parent 0 .*as a method of its class"):
        METHODS[name](nets, (X, Y))


def test_a_forward_that_is_a_bound_method_runs_the_weights_of_the_copy():
    """Which copy.deepcopy copies; the parents get no gradients."""

    class Twice(nn.Sequential):
        def forward(self, x):
            return super().forward(x) * 2

    patched, plain = [network(1), network(2)], [Twice(*network(seed)) for seed in (1, 2)]
    for net in patched:
        net.forward = functools.partial(twice, net.forward)
    for name, options in {"Average": {}, "KF-Linear": {}, "KD": {"epochs": 2}}.items():
        fused, expected = (METHODS[name](nets, (X, Y), **options).model for nets in (patched, plain))
        with torch.no_grad():
            torch.testing.assert_close(fused(X), expected(X))
    assert all(parameter.grad is None for net in patched for parameter in net.parameters())


class Registry(list):
    """Which no copy follows."""

    def __deepcopy__(self, memo):
        return self


def kept(net):
    olds = Registry([net.forward])
    net.forward = lambda x: olds[0](x) * 2


def test_code_that_reaches_the_network_itself_is_refused():
    nets = [network(1), network(2)]
    for net in nets:
        kept(net)
    with pytest.raises(ValueError, match="'0.weight'.*as a method of its class"):
        METHODS["KF-Gradient"](nets, (X, Y))


class Returning(nn.Module):
    """Returns its logits in one of several ways."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.up, self.head = kind, nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        y = self.head(self.up(x).relu())
        kinds = {"dict": {"logits": y}, "one key": {"out": y}, "tuple": (y, x.mean()), "one": (y,)}
        return kinds.get(self.kind) or types.SimpleNamespace(logits=y, hidden=x)


WAYS = ["dict", "one key", "tuple", "one", "object"]


@each_case("name, kind", spread(sorted(set(METHODS) - {"Ensemble", "Ensemble-Logits"}), WAYS, 1))
def test_the_result_is_of_the_parents_own_class_and_returns_what_they_return(kind, name):
    parents = []
    for seed in range(2):
        torch.manual_seed(seed)
        parents.append(Returning(kind).eval())
    options = options_for(name) | ({"logits": 0} if kind == "tuple" else {})
    result = METHODS[name](parents, (X, Y), **options)
    assert type(result.model) is Returning and type(result.model(X)) is type(parents[0](X))
    assert result.config["logits"] == {"one key": "out", "tuple": 0, "one": 0}.get(kind, "logits")
    again = Returning(kind)
    again.load_state_dict(result.model.state_dict())
    for module in result.model.modules():
        assert type(module) in (Returning, nn.Linear)
        assert not (module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


class Standardised(nn.Conv2d):
    def forward(self, x):
        weight = (self.weight - self.weight.mean((1, 2, 3), keepdim=True)) / self.weight.std((1, 2, 3), keepdim=True)
        return F.conv2d(x, weight, self.bias)


class ByBatchNorm(nn.Conv2d):
    """As in timm: the statistics are of the weights."""

    def __init__(self, inputs, outputs, size):
        super().__init__(inputs, outputs, size, groups=5 if inputs == 5 else 1)

    def forward(self, x):
        weight = F.batch_norm(self.weight.reshape(1, len(self.weight), -1), None, None, training=True)
        return F.conv2d(x, weight.reshape_as(self.weight), self.bias, groups=self.groups)


class LowRank(nn.Linear):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.down, self.up = (nn.Parameter(torch.randn(*shape) / 2) for shape in ((2, inputs), (outputs, 2)))

    def forward(self, input):
        return super().forward(input) + input @ self.down.T @ self.up.T


def convolutional(layer):
    pooled = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 3)
    return nn.Sequential(layer(2, 5, 3), nn.ReLU(), layer(5, 5, 3), nn.ReLU(), *pooled), (2, 7, 7)


OWN_LAYERS = {
    "weight standardised": lambda: convolutional(Standardised),
    "weight standardised by batch_norm, in groups": lambda: convolutional(ByBatchNorm),
    "low rank": lambda: (
        nn.Sequential(LowRank(6, 8), nn.ReLU(), LowRank(8, 8), nn.ReLU(), nn.Linear(8, 3)),
        (6,),
    ),
}


@pytest.mark.parametrize("kind", OWN_LAYERS)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(("PLeaS", {"repair": True}), ("RegMean", {}), ("ZipIt", {"repair": True})),
    ],
)
def test_a_layer_with_a_forward_of_its_own_is_no_plain_layer(kind, name, options):
    """Two equal networks fuse to themselves."""
    torch.manual_seed(0)
    net, shape = OWN_LAYERS[kind]()
    x = normal(120, *shape).float()
    kept_norms(net.eval(), x)
    fused = METHODS[name]([net, copy.deepcopy(net)], x, **options).model
    with torch.no_grad():
        torch.testing.assert_close(fused(x), net(x), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", OWN_LAYERS)
@pytest.mark.parametrize("name", ["HF-Linear", "KF-Linear"])
def test_closed_form_finds_a_permuted_copy(kind, name):
    """Neurons of computed weights are grouped too."""
    torch.manual_seed(0)
    net, shape = OWN_LAYERS[kind]()
    net, x = net.double().eval(), normal(120, *shape)
    parents = [net, permuted(net, x, 3)]
    with torch.no_grad():
        torch.testing.assert_close(METHODS[name](parents, x, ridge=0.0).model(x), net(x))


def test_a_batchnorm_that_scales_otherwise_keeps_its_function():
    class OnePlus(nn.BatchNorm1d):
        def forward(self, input):
            return F.batch_norm(input, self.running_mean, self.running_var, 1 + self.weight, self.bias, eps=self.eps)

    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(6, 8), OnePlus(8), nn.ReLU(), nn.Linear(8, 3)).eval(), X * 3
    same = copy.deepcopy(net)
    kept_norms(same, x)
    with torch.no_grad():
        torch.testing.assert_close(same(x), net(x))


class Scaling(nn.Module):
    """Divides by a buffer, or a frozen parameter, before, between, or after its layers."""

    def __init__(self, net, place, number, frozen=False):
        super().__init__()
        self.number = nn.Parameter(torch.tensor(number), False) if frozen else nn.Buffer(torch.tensor(number))
        self.net, self.place = net, place

    def forward(self, x):
        for place, module in enumerate((*self.net, nn.Identity())):
            x = module(x / self.number if place == self.place else x)
        return x


@pytest.mark.parametrize("name", ["RegMean", "PLeaS"])
@pytest.mark.parametrize("place, frozen", [(0, False), (2, False), (0, True)])
def test_parents_whose_layers_read_what_other_buffers_scale_are_refused(name, place, frozen):
    with pytest.raises(ValueError, match=r"parent 1 compute with other numbers \('number' holds 1 and 0.5\)"):
        METHODS[name].plan([Scaling(network(seed), place, number, frozen) for seed, number in ((1, 1.0), (2, 0.5))], X)
    METHODS[name].plan([Scaling(network(seed), place, 2.0, frozen) for seed in (1, 2)], X)
    METHODS[name].plan(
        [Scaling(network(seed), 5, number) for seed, number in ((1, 1.0), (2, 0.5))], X
    )  # behind all layers


class Shared(nn.Module):
    """Its output for a sample depends on the others."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x - x.mean(0))


LARGE = X.clone()
LARGE[3] *= 1e18


@pytest.mark.parametrize("name", ["RegMean", "KF-Linear", "Ensemble"])
@pytest.mark.parametrize(
    ("wrap", "data", "message"),
    [
        (nn.Identity, LARGE, "fusion sample 3 holds .* Normalise the data"),
        (Shared, X, "parent 0: its output for a sample depends on the other samples of the batch"),
    ],
)
def test_data_and_networks_that_do_not_fit_are_refused_alike(name, wrap, data, message):
    nets = [network(seed) if wrap is nn.Identity else wrap(network(seed)) for seed in (1, 2)]
    with pytest.raises(ValueError, match=message):
        METHODS[name].plan(nets, data)


@pytest.mark.parametrize("different", [1, 2])
def test_auto_refuses_samples_that_are_repeated(different):
    with pytest.raises(ValueError, match=f"only {different} of the 60 samples can be told from the others"):
        METHODS["Auto"].plan([network(1), network(2)], X[:different].repeat(60 // different, 1))
