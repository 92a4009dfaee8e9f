"""Networks whose kinds were once forgotten: every method keeps the function of two equal networks, or refuses before any work."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from retrofit_core import METHODS
from tests.marks import each_case
from tests.networks import initialised, labels, normal, seeded, shuffled
from tests.properties import assert_same_function, untouched
from tests.test_contract import options_for
from tests.test_twins import ALIGNING, AVERAGING, KEEPING, MERGES, TRAINED

WIDTH, CLASSES = 6, 4


class Written(nn.Module):
    """Two hidden layers and two heads, joined by a function of the module and its input."""

    def __init__(self, code, outputs=CLASSES):
        super().__init__()
        self.a, self.b = nn.Linear(5, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.c, self.d = nn.Linear(5, 2 * WIDTH), nn.Linear(WIDTH, outputs), nn.Linear(WIDTH, outputs)
        self.register_buffer("scale", torch.linspace(0.5, 2, WIDTH))
        self.table = nn.Parameter(torch.zeros(WIDTH, 5))
        self.code = code

    def forward(self, x):
        return self.code(self, x)


def chunked(net, x):
    u, v = net.wide(x).chunk(2, 1)
    return net.c(u * v.sigmoid())


def in_place(net, x):
    h = F.relu_(net.a(x))
    g = net.b(h)
    g += h
    return net.c(F.relu_(g))


def hidden(net, x):
    return net.a(x).relu()


#: Kind -> (code, outputs, shape of an input).
KINDS = {
    "two heads": (lambda net, x: (net.c(h := hidden(net, x)) + net.d(h)) / 2, CLASSES, (5,)),
    "gated heads": (lambda net, x: net.c(h := hidden(net, x)) * net.d(h).sigmoid(), CLASSES, (5,)),
    "an early exit": (lambda net, x: net.c(h := hidden(net, x)) + net.d(net.b(h).relu()), CLASSES, (5,)),
    "alpha": (lambda net, x: net.c(torch.add(h := hidden(net, x), net.b(h), alpha=0.3).relu()), CLASSES, (5,)),
    "a difference": (lambda net, x: net.c((net.b(h := hidden(net, x)) - h).relu()), CLASSES, (5,)),
    "a buffer": (lambda net, x: net.c(hidden(net, x) * net.scale), CLASSES, (5,)),
    "a gate in a chain": (chunked, CLASSES, (5,)),
    "glu": (lambda net, x: net.c(F.glu(net.wide(x), 1)), CLASSES, (5,)),
    "dropout as a function": (
        lambda net, x: net.c(F.dropout(net.b(h := hidden(net, x)), 0.5, net.training) + h),
        CLASSES,
        (5,),
    ),
    "in place": (in_place, CLASSES, (5,)),
    "a raw parameter": (lambda net, x: net.c((x @ net.table.t()).relu()), CLASSES, (5,)),
    "a module made in forward": (lambda net, x: net.c(nn.ReLU()(net.a(x))), CLASSES, (5,)),
    "one output": (lambda net, x: net.c(hidden(net, x)), 1, (5,)),
    "tokens": (lambda net, x: net.c(hidden(net, x)), CLASSES, (3, 5)),
    "tied": (lambda net, x: F.linear(hidden(net, x), net.a.weight.t()), 5, (5,)),
}


def parent(kind):
    code, outputs, _ = KINDS[kind]
    return initialised(seeded(0, Written, code, outputs), 0).double().eval()


def kept(method, kind, parents, **options):
    """Whether a method gave the parents' function back; not where it refused."""
    x = normal(40, *KINDS[kind][2])
    data = (x, labels(40, CLASSES)) if KINDS[kind][1] == CLASSES and x.ndim == 2 else x
    try:
        with untouched(*parents):
            model = METHODS[method](parents, data, **{**options_for(method, parents, KINDS[kind][1]), **options}).model
    except ValueError as error:
        assert str(error)[-1] == "."
        return False
    if method.startswith("Ensemble") and method != "Ensemble-Logits":  # gives logarithms of probabilities
        assert torch.allclose(model(x).softmax(1), parents[0](x).softmax(1), atol=1e-6)
    else:
        assert_same_function(model, parents[0], x, 1e-6)
    return True


#: The methods that refuse a kind; all others find the copy.
REFUSING = {
    "a raw parameter": {"HF-Linear", "KF-Linear"},
    "tied": {"HF-Linear", "KF-Linear", "HF-Gradient", "KF-Gradient", "PLeaS"},
}


@pytest.mark.slow
@each_case("kind", KINDS)
def test_every_aligning_method_finds_a_shuffled_copy(kind):
    model, x = parent(kind), normal(40, *KINDS[kind][2])
    twin = shuffled(model, x)
    assert_same_function(twin, model, x, 1e-9)
    refused = {method for method, options in ALIGNING.items() if not kept(method, kind, [model, twin], **options)}
    assert refused == REFUSING.get(kind, set())


@pytest.mark.slow
@each_case("kind", KINDS)
def test_every_other_method_keeps_the_function_of_the_same_network(kind):
    model = parent(kind)
    others = {**KEEPING, **AVERAGING, **dict.fromkeys(MERGES, {})}
    assert {*others, *ALIGNING, *TRAINED} <= METHODS.keys()
    found = [kept(method, kind, [model, copy.deepcopy(model)], **options) for method, options in others.items()]
    assert any(found)


def test_a_fault_would_be_seen():
    """The control: a method that adds up heads in another order fails."""
    model = parent("two heads")
    turned = copy.deepcopy(model)
    turned.c.weight.data = turned.c.weight.data.flip(0)
    with pytest.raises(AssertionError, match="differ by"):
        kept("Average", "two heads", [model, turned])


def test_where_few_samples_do_not_reach_the_parents_weights_keep_a_shuffled_copy():
    """Squeeze-and-excitation has one row for each sample, fewer than its columns: without a ridge the fit is exact on the
    samples only; a ridge towards the parents, of any strength, is exact everywhere."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU())
            self.depthwise = nn.Sequential(nn.Conv2d(24, 24, 3, padding=1, groups=24), nn.BatchNorm2d(24), nn.ReLU())
            pool, few, many = nn.AdaptiveAvgPool2d(1), nn.Conv2d(24, 6, 1), nn.Conv2d(6, 24, 1)
            self.squeeze, self.head = nn.Sequential(pool, few, nn.ReLU(), many, nn.Sigmoid()), nn.Linear(24, 3)

        def forward(self, x):
            x = self.depthwise(self.stem(x))
            return self.head((x * self.squeeze(x)).mean((2, 3)))

    net = initialised(Network(), seed=3)
    x, new = torch.randn(2, 8, 3, 6, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    other = shuffled(net, x)

    def lost(images, **options):
        fused = METHODS["HF-Linear"]([net, other], x, device="cpu", **options).model
        with torch.no_grad():
            return ((fused(images) - net(images)).norm() / (net(images) - net(images).mean(0)).norm()).item()

    assert lost(x, ridge=0.0) < 1e-9 and lost(new, ridge=0.0) > 1e-3
    for options in ({}, {"ridge": "10x"}):
        assert lost(x, toward="parents", **options) < 1e-9 and lost(new, toward="parents", **options) < 1e-9
