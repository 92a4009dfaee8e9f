"""Tied layers, embedding and head or autoencoders: twins in another order are found, or refused with a way out."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from retrofit_core.fusion.task import Task
from retrofit_core.methods import METHODS, RETROFITTING
from tests.marks import each_case, spread
from tests.networks import initialised, normal
from tests.properties import assert_close, repair, untouched
from tests.test_twins import EVERY

WORDS = torch.randint(30, (80, 6), generator=torch.Generator().manual_seed(3))


class Language(nn.Module):
    """The head's weight is the embedding's; how the head is called is given."""

    def __init__(self, head):
        super().__init__()
        self.emb, self.up, self.down = nn.Embedding(30, 8), nn.Linear(8, 6), nn.Linear(6, 8)
        self.head, self.code = nn.Linear(8, 30, bias=False), head
        self.head.weight = self.emb.weight

    def forward(self, words):
        return self.code(self, self.down(self.up(self.emb(words).mean(1)).relu()))

    def in_order(self, p, q):
        self.emb.weight.data = self.emb.weight.detach()[:, p]
        self.up.weight.data, self.up.bias.data = self.up.weight.detach()[q][:, p], self.up.bias.detach()[q]
        self.down.weight.data, self.down.bias.data = self.down.weight.detach()[p][:, q], self.down.bias.detach()[p]


class Autoencoder(nn.Module):
    """Two layers, and the same two turned round; how they are turned is given."""

    def __init__(self, turned):
        super().__init__()
        self.first, self.second = nn.Linear(7, 8), nn.Linear(8, 6)
        self.inner, self.outer = nn.Parameter(torch.zeros(8)), nn.Parameter(torch.zeros(7))
        self.code = turned

    def forward(self, x):
        h = self.second(self.first(x).relu()).relu()
        h = self.code(h, self.second.weight, self.inner).relu()
        return self.code(h, self.first.weight, self.outer)

    def in_order(self, p, q):
        self.first.weight.data, self.first.bias.data = self.first.weight.detach()[p], self.first.bias.detach()[p]
        self.second.weight.data, self.second.bias.data = (
            self.second.weight.detach()[q][:, p],
            self.second.bias.detach()[q],
        )
        self.inner.data = self.inner.detach()[p]


MAKE = {
    "head": lambda: Language(lambda net, h: net.head(h)),
    "head by function": lambda: Language(lambda net, h: F.linear(h, net.emb.weight)),
    "head by product": lambda: Language(lambda net, h: h @ net.emb.weight.t()),
    "t()": lambda: Autoencoder(lambda h, weight, bias: F.linear(h, weight.t(), bias)),
    "T": lambda: Autoencoder(lambda h, weight, bias: F.linear(h, weight.T, bias)),
    "transpose": lambda: Autoencoder(lambda h, weight, bias: F.linear(h, weight.transpose(0, 1), bias)),
    "product": lambda: Autoencoder(lambda h, weight, bias: h @ weight + bias),
}
ALIGNED = [name for name in EVERY if name not in RETROFITTING and name != "PLeaS"]


def twins(name):
    """A network, a copy in another order, and data."""
    model = initialised(MAKE[name](), 1)
    if isinstance(model, Language):
        model.head.weight = model.emb.weight
    twin = copy.deepcopy(model)
    twin.in_order(*(torch.randperm(n, generator=torch.Generator().manual_seed(n)) for n in (8, 6)))
    x = WORDS if isinstance(model, Language) else normal(80, 7)
    with torch.no_grad():
        assert_close(twin(x), model(x), 1e-12)
        assert model(x).std() > 1e-3
    return model, twin, x


@pytest.mark.slow
@each_case("method, name", spread(ALIGNED, MAKE, 2))
def test_twins_are_found_and_stay_tied(name, method):
    model, twin, x = twins(name)
    with untouched(model, twin):
        fused = EVERY[method]([model, twin], x, device="cpu").model
    with torch.no_grad():
        assert_close(fused(x), model(x), 1e-7)
    if isinstance(model, Language):
        assert fused.head.weight is fused.emb.weight


@pytest.mark.slow
@each_case("name, method", spread(MAKE, ["PLeaS", "RegMean"], 1))
def test_methods_that_solve_layers_by_themselves_refuse_and_what_they_name_works(name, method):
    model, twin, x = twins(name)
    with pytest.raises(ValueError, match=r"Use Git-Re-Basin, OTFusion or ZipIt, which keep it shared") as refusal:
        METHODS[method]([model, twin], x, device="cpu")
    for other in ("Git-Re-Basin", "OTFusion", "ZipIt"):
        assert other in str(refusal.value)
        with torch.no_grad():
            assert_close(METHODS[other]([model, twin], x, device="cpu").model(x), model(x), 1e-6)


@each_case("method", ["HF-Linear", "KF-Linear"])
def test_a_head_that_is_the_table_is_found_again_and_stays_it(method):
    model, twin, x = twins("head")
    fused = METHODS[method]([model, twin], x, ridge=0.0, device="cpu").model
    with torch.no_grad():
        assert_close(fused(x), model(x), 1e-7)
    assert fused.head.weight is fused.emb.weight


@pytest.mark.parametrize("name", ["t()"])
def test_levels_refuse_and_one_level_by_gradient_works(name):
    model, twin, x = twins(name)
    with pytest.raises(ValueError, match="tied weights cannot be fitted one level at a time"):
        METHODS["KF-Linear"]([model, twin], x, device="cpu")
    assert (
        METHODS["KF-Gradient"]([model, twin], x, device="cpu", boundaries=1, epochs=1).model(x).shape == model(x).shape
    )


@pytest.mark.parametrize("method", ["OTFusion", "ZipIt"])
def test_other_widths_are_refused_before_any_work(method):
    model, twin, x = twins("head")
    narrow = initialised(MAKE["head"](), 1)
    narrow.emb, narrow.up, narrow.down = nn.Embedding(30, 5), nn.Linear(5, 6), nn.Linear(6, 5)
    narrow.head = nn.Linear(5, 30, bias=False)
    narrow.head.weight = narrow.emb.weight
    with pytest.raises(ValueError, match=r"'emb.weight' both makes and reads the neurons at .* equal widths"):
        METHODS[method]([model, twin], x, target=narrow.double(), device="cpu")


def test_repair_leaves_tied_layers_alone():
    model, _, x = twins("head")
    merged = copy.deepcopy(model)
    with torch.no_grad():
        merged.up.weight.mul_(0.5)
        merged.down.weight.mul_(0.5)
    before = merged.emb.weight.detach().clone()
    task = Task.of([model, merged], x)
    (first, repaired), inputs = task.parents, task.inputs
    facts = repair(repaired, [first], inputs)
    assert facts["layers"] == 2 and torch.equal(repaired.get_parameter("emb.weight"), before)
    with torch.no_grad():
        assert_close(repaired(x), model(x), 1e-6)
