"""However a network spells a sum, a dropout or an operation in place: a copy whose neurons lie in another order is found again.

The copy is made by hand here; networks that spell the sum as `h + 0.3 * o` say what the reports must hold.
"""

import copy

import pytest
import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional as F

from retrofit_core.methods import METHODS
from tests.marks import each_case
from tests.networks import initialised, labels, normal
from tests.properties import assert_close, assert_same_function, untouched


class Net(nn.Module):
    """Two layers whose outputs go into what `join` makes of the stem."""

    def __init__(self, join) -> None:
        super().__init__()
        self.stem, self.a, self.b, self.head = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)
        self.alpha, self.features = nn.AlphaDropout(), nn.FeatureAlphaDropout()
        self.path = torchvision.ops.StochasticDepth(0.3, "row")
        self.join = join

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.join(self, torch.relu(self.stem(x)))))


class ConvNet(nn.Module):
    def __init__(self, join) -> None:
        super().__init__()
        self.stem, self.a, self.b = nn.Conv2d(6, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.head, self.join = nn.Linear(8, 4), join

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.join(self, torch.relu(self.stem(x)))).mean((2, 3)))


def in_place(change):
    """A join whose first operation writes into what the layer made, without a name for the result."""

    def join(net: Net, h: Tensor) -> Tensor:
        o = net.a(h)
        change(o, h)
        return o

    return join


def subtracted(net: Net, h: Tensor) -> Tensor:
    o = net.a(h)
    o -= h
    return o


#: Spelled with a factor, and the same in plain words.
FACTORS = {
    "torch.add": (lambda n, h: torch.add(h, n.a(h), alpha=0.3), lambda n, h: h + 0.3 * n.a(h)),
    "by name": (lambda n, h: torch.add(input=h, other=n.a(h), alpha=0.3), lambda n, h: h + 0.3 * n.a(h)),
    "the stream": (lambda n, h: torch.add(n.a(h), h, alpha=0.3), lambda n, h: n.a(h) + h * 0.3),
    "method": (lambda n, h: h.add(n.a(h), alpha=0.3), lambda n, h: h + 0.3 * n.a(h)),
    "in place": (lambda n, h: h.add_(n.a(h), alpha=0.3), lambda n, h: h + 0.3 * n.a(h)),
    "minus one": (lambda n, h: h.add(n.a(h), alpha=-1), lambda n, h: h + -1 * n.a(h)),
    "two layers": (lambda n, h: torch.add(n.a(h), n.b(h), alpha=0.3), lambda n, h: n.a(h) + n.b(h) * 0.3),
    "torch.sub": (lambda n, h: torch.sub(h, n.a(h), alpha=0.3), lambda n, h: h - 0.3 * n.a(h)),
    "sub": (lambda n, h: h.sub(n.a(h), alpha=0.3), lambda n, h: h - 0.3 * n.a(h)),
    "rsub": (lambda n, h: torch.rsub(h, n.a(h), alpha=0.3), lambda n, h: n.a(h) - h * 0.3),
    "addcmul": (lambda n, h: torch.addcmul(h, n.a(h), n.b(h), value=0.3), lambda n, h: h + n.a(h) * n.b(h) * 0.3),
    "stack": (lambda n, h: torch.stack([h, n.a(h)]).sum(0), lambda n, h: h + n.a(h)),
    "mean of a stack": (
        lambda n, h: torch.stack([h, n.a(h), n.b(h)], 1).mean(1),
        lambda n, h: (h + n.a(h) + n.b(h)) / 3,
    ),
}
OTHERS = {
    "minus": lambda n, h: h - n.a(h),
    "minus of two": lambda n, h: n.a(h) - n.b(h),
    "isub": subtracted,
    "add_": in_place(lambda o, h: o.add_(h, alpha=0.3)),
    "relu_": in_place(lambda o, h: F.relu_(o)),
    "inplace=True": in_place(lambda o, h: F.relu(o, inplace=True)),
    "mul_, then add_": in_place(lambda o, h: (o.mul_(0.3), o.add_(h))),
    "addcdiv": lambda n, h: torch.addcdiv(h, n.a(h), 1 + n.b(h).abs(), value=0.3),
    "F.dropout": lambda n, h: h + F.dropout(n.a(h), training=n.training),
    "F.dropout by place": lambda n, h: h + F.dropout(n.a(h), 0.3, n.training),
    "torch.dropout": lambda n, h: h + torch.dropout(n.a(h), 0.3, n.training),
    "F.dropout of nothing": lambda n, h: h + F.dropout(n.a(h), 0.0),
    "F.dropout1d": lambda n, h: h + F.dropout1d(n.a(h)[None], training=n.training)[0],
    "F.alpha_dropout": lambda n, h: h + F.alpha_dropout(n.a(h), training=n.training),
    "F.alpha_dropout, default": lambda n, h: h + F.alpha_dropout(n.a(h)),
    "F.feature_alpha_dropout": lambda n, h: h + F.feature_alpha_dropout(n.a(h), training=n.training),
    "dropout of an activation": lambda n, h: h + F.dropout(torch.relu(n.a(h)), training=n.training),
    "stochastic_depth": lambda n, h: h + torchvision.ops.stochastic_depth(n.a(h), 0.3, "row", n.training),
    "StochasticDepth": lambda n, h: h + n.path(n.a(h)),
    "AlphaDropout": lambda n, h: h + n.alpha(n.a(h)),
    "FeatureAlphaDropout": lambda n, h: h + n.features(n.a(h)),
    "selu": lambda n, h: h + F.selu(n.a(h)),
    "modules made in forward": lambda n, h: nn.Sequential(nn.Identity(), nn.ReLU(inplace=True))(n.a(h)),
    "a norm made in forward": lambda n, h: h + nn.LayerNorm(8, elementwise_affine=False)(n.a(h)),
}
PLAIN = {"KF-Linear": {"ridge": 0.0}, "HF-Linear": {"ridge": 0.0}, "OTFusion": {}, "Git-Re-Basin-Weights": {}}


def reordered(model: Net | ConvNet) -> Net | ConvNet:
    order, twin = torch.tensor([3, 7, 1, 0, 6, 2, 5, 4]), copy.deepcopy(model)
    with torch.no_grad():
        for name, layer in model.named_modules():
            if isinstance(layer, (nn.Linear, nn.Conv2d)):
                other = twin.get_submodule(name)
                weight = layer.weight if name == "stem" else layer.weight[:, order]
                other.weight.copy_(weight if name == "head" else weight[order])
                other.bias.copy_(layer.bias if name == "head" else layer.bias[order])
    return twin


def assert_found_again(model, x, methods=PLAIN):
    twin = reordered(model)
    with torch.no_grad():
        assert_close(twin(x), model(x), 1e-12)
    for method, options in methods.items():
        with untouched(model, twin):
            fused = METHODS[method]([model, twin], x, device="cpu", **options)
        assert_same_function(fused.model, model, x, 1e-8)


@pytest.mark.slow
@each_case("join", [spelled for spelled, _ in FACTORS.values()])
def test_sums_with_factors_keep_their_twins(join):
    assert_found_again(initialised(Net(join), 0), normal(60, 6))


@pytest.mark.slow
@each_case("join", OTHERS.values())
def test_other_sums_keep_their_twins(join):
    assert_found_again(initialised(Net(join), 0), normal(60, 6))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torch.add", "two layers"])
def test_sums_of_convolutions_keep_their_twins(name):
    assert_found_again(initialised(ConvNet(FACTORS[name][0]), 0), normal(60, 6, 5, 5))


@pytest.mark.slow
@each_case("name", FACTORS)
def test_reports_and_weights_are_those_of_the_plain_sum(name):
    x = normal(60, 6)
    results = [
        METHODS["KF-Linear"]([initialised(Net(join), seed) for seed in (0, 1)], x, device="cpu")
        for join in FACTORS[name]
    ]
    for level, expected in zip(results[0].levels, results[1].levels, strict=True):
        for value in ("energy", "grouping_error", "approximation_error"):
            assert getattr(level, value) == pytest.approx(getattr(expected, value), rel=1e-6, abs=1e-9), value
    with torch.no_grad():
        assert_close(results[0].model(x), results[1].model(x), 1e-8)


def test_a_function_in_place_does_not_write_into_what_is_scored():
    """Conductance of `relu_` is that of `relu`, and the networks' own inputs stay."""
    data = (normal(40, 6), labels(40, 4))
    networks = [
        [initialised(Net(join), seed) for seed in (0, 1)] for join in (OTHERS["relu_"], lambda n, h: n.a(h).relu())
    ]
    options = {"importance": "conductance", "importance_data": "fusion", "device": "cpu"}
    first, second = (METHODS["KF-Linear"](parents, data, **options).model for parents in networks)
    assert_same_function(first, second, data[0], 1e-9)


class Writes(nn.Module):
    """Taken whole, it writes into its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(0.5) if x.sum() > -1e9 else x


def test_a_module_taken_whole_may_write_into_its_input():
    parents = [
        initialised(nn.Sequential(nn.Linear(6, 8), Writes(), nn.ReLU(), nn.Linear(8, 4)), seed) for seed in (0, 1)
    ]
    plain = copy.deepcopy(parents)
    for parent in plain:
        parent[0].weight.data.mul_(0.5), parent[0].bias.data.mul_(0.5)
        parent[1] = nn.Identity()
    x = normal(60, 6)
    fused, expected = (
        METHODS["KF-Linear"](pair, x.clone(), device="cpu", ridge=0.0).model for pair in (parents, plain)
    )
    assert_same_function(fused, expected, x.clone(), 1e-7)


@pytest.mark.parametrize(
    "join, message",
    [
        (lambda n, h: h + F.dropout(n.a(h)), r"Net calls dropout\(\), .* Pass training=self.training"),
        (lambda n, h: h + nn.Dropout()(n.a(h)), "drops at random in evaluation mode too"),
        (lambda n, h: h + nn.Linear(8, 8).double()(n.a(h)), "Net calls a Linear that is not one of its submodules"),
        (lambda n, h: h + nn.BatchNorm1d(8, affine=False)(n.a(h)), "Create it in __init__ as an attribute"),
    ],
)
def test_what_differs_from_call_to_call_is_refused(join, message):
    parents = [initialised(Net(join), seed) for seed in (0, 1)]
    for method in ("KF-Linear", "KF-Gradient", "OTFusion"):
        with pytest.raises(ValueError, match=message):
            METHODS[method](parents, normal(40, 6), device="cpu")


class Raw(nn.Module):
    """Layers that are parameters."""

    def __init__(self, first, second) -> None:
        super().__init__()
        self.w, self.v = nn.Parameter(normal(8, 6, seed=1)), nn.Parameter(normal(8, 8, seed=2))
        self.head, self.first, self.second = nn.Linear(8, 4), first, second

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(self.first(x, self.w).relu(), self.v).relu())


@pytest.mark.slow
@each_case("method", ["OTFusion", "OTFusion-Weights", "Git-Re-Basin", "Git-Re-Basin-Weights", "ZipIt", "PLeaS"])
@each_case(
    "first, second",
    [
        (lambda x, w: x @ w.t(), lambda x, w: x @ w),
        (lambda x, w: x.matmul(w.T), lambda x, w: torch.mm(x, w)),
        (F.linear, lambda x, w: torch.addmm(x, x, w, alpha=0.3)),
    ],
)
def test_parameters_that_are_multiplied_are_layers(first, second, method):
    model = initialised(Raw(first, second), 0)
    twin, x = copy.deepcopy(model), normal(60, 6)
    order = torch.tensor([3, 7, 1, 0, 6, 2, 5, 4])
    with torch.no_grad():
        twin.w.copy_(model.w[order])
        twin.v.copy_(model.v[order][:, order])
        twin.head.weight.copy_(model.head.weight[:, order])
        assert_close(twin(x), model(x), 1e-12)
    options = {"reset_norms": False} if method in ("ZipIt", "PLeaS") else {}
    assert_same_function(METHODS[method]([model, twin], x, device="cpu", **options).model, model, x, 1e-8)


def test_a_parameter_in_an_einsum_is_refused():
    parents = [initialised(Raw(lambda x, w: torch.einsum("bi,oi->bo", x, w), F.linear), seed) for seed in (0, 1)]
    with pytest.raises(ValueError, match=r"behind einsum\(\)"):
        METHODS["OTFusion"](parents, normal(40, 6), device="cpu")
