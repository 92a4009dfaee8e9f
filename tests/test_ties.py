"""Silent, constant and duplicate neurons: every processor pairs them in the same way, and each with its own copy."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from retrofit_core import METHODS
from retrofit_core.baselines.zipit import zip_neurons
from retrofit_core.networks.architectures import build
from retrofit_core.networks.symmetry.watch import Sums
from tests.another_order import AnotherOrder
from tests.networks import VGG_SHAPE, labels, normal
from tests.test_transformer import vit

MATCHING = {
    "HF-Linear": {},
    "Git-Re-Basin": {},
    "Git-Re-Basin-Weights": {},
    "ZipIt": {},
    "PLeaS": {},
    "OTFusion": {},
    "OTFusion-Weights": {},
    "Transformer-OTFusion": {"solver": "exact"},
    "Transformer-OTFusion-Weights": {"solver": "exact"},
}
NETWORKS = {
    "mlp": ({"architecture": "mlp", "sizes": [12, 40, 40, 5]}, (12,)),
    "cnn": ({"architecture": "cnn", "widths": [16, 24, 24], "channels": 1, "size": 8, "classes": 5}, (1, 8, 8)),
}


@torch.no_grad()
def with_ties(spec, seed, dtype=torch.float64):
    """A network in which a quarter of each layer is silent, some neurons are constant and two are there twice."""
    model = build(spec, seed=seed).to(dtype).eval()
    layers: list[Any] = [module for module in model.modules() if isinstance(module, (nn.Linear, nn.Conv2d))]
    for layer in layers[:-1]:
        n = len(layer.weight)
        layer.bias[1 : n // 4 + seed] = -50
        for first in (n // 2, n // 2 + 2):
            layer.weight[first + 1], layer.bias[first + 1] = layer.weight[first], layer.bias[first]
        layer.weight[-3:] = 0
        layer.bias[-3:] = torch.tensor([0.3, 0.3, 0.7])
    return model


def data(shape, dtype=torch.float64):
    return normal(80, *shape).to(dtype), labels(80, 5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("method", MATCHING)
def test_another_order_of_additions_pairs_the_same_neurons(method, name, dtype):
    spec, shape = NETWORKS[name]
    parents = [with_ties(spec, seed, dtype) for seed in range(2)]
    fusion, options = data(shape, dtype), {"device": "cpu", **MATCHING[method]}
    here = METHODS[method](parents, fusion, **options)
    for seed in range(2):
        with AnotherOrder(seed):
            there = METHODS[method](parents, fusion, **options)
        for one, other in zip(here.levels, there.levels, strict=True):
            assert one.labels.tolist() == other.labels.tolist(), one.name
        if dtype == torch.float64:
            for one, other in zip(here.model.parameters(), there.model.parameters(), strict=True):
                assert (one - other).norm() <= 1e-9 * other.norm() + 1e-12


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("method", [name for name in MATCHING if name not in ("HF-Linear", "PLeaS")])
def test_every_neuron_is_paired_with_its_own_copy(method, name):
    spec, shape = NETWORKS[name]
    parent = with_ties(spec, 0)
    fused = METHODS[method]([parent, copy.deepcopy(parent)], data(shape), device="cpu", **MATCHING[method]).model
    for one, own in zip(fused.parameters(), parent.parameters(), strict=True):
        assert torch.allclose(one, own, rtol=0, atol=1e-12)


@torch.no_grad()
def test_neurons_that_standardising_makes_alike_stay_with_their_own_copy():
    """In a transformer: multiples of one neuron, and constant ones."""
    model = vit()
    for layer in (module for module in model.modules() if isinstance(module, nn.Linear) and len(module.weight) > 3):
        layer.weight[1], layer.bias[1] = 2 * layer.weight[0], 2 * layer.bias[0] + 1
        layer.weight[2:4], layer.bias[2:4] = 0, torch.tensor([0.5, -0.25], dtype=torch.float64)
    x = normal(40, *VGG_SHAPE)
    fused = METHODS["Transformer-OTFusion"]([model, copy.deepcopy(model)], x, device="cpu", solver="exact").model
    assert torch.allclose(fused(x), model(x), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_constant_neurons_have_no_correlation(dtype, tolerance):
    z = normal(100_000, 6).to(dtype)
    z[:, 1], z[:, 2], z[:, 3] = 0, 0.3, 1 / 3
    z[:, 5] = 7 - 3 * z[:, 4]
    sums = Sums(len(z), (z.T @ z).double(), z.sum(0).double(), dtype)
    expected = torch.zeros(6, 6, dtype=torch.float64)
    varied = torch.tensor([0, 4, 5])
    expected[varied[:, None], varied] = torch.corrcoef(z[:, varied].double().T)
    assert torch.allclose(sums.correlation(), expected, rtol=0, atol=tolerance)
    assert torch.equal(sums.correlation()[1:4], expected[1:4])


def test_zipit_pairs_silent_neurons_after_live_ones_and_with_their_own_copies():
    """Neurons 1, 2 and 4 are silent; the live ones are more like each other than nothing at all."""
    live = torch.full((5, 5), 0.9, dtype=torch.float64)
    live.fill_diagonal_(1)
    live[[1, 2, 4]] = 0
    live[:, [1, 2, 4]] = 0
    origins = torch.arange(2).repeat_interleave(5)
    labels, facts = zip_neurons(live.repeat(2, 2), origins, 5, b=1.0)
    assert labels.tolist() == [0, 1, 2, 3, 4] * 2 and facts["within"] == [0, 0]
    labels, _ = zip_neurons(live.repeat(2, 2), origins, 8)  # two merges: those of the live neurons
    assert labels.tolist() == [0, 1, 2, 3, 4, 0, 5, 6, 3, 7]


@torch.no_grad()
def test_zipit_prefers_silent_to_live_partners_for_silent_neurons():
    similarity = torch.zeros(6, 6, dtype=torch.float64)
    similarity[1, 1] = similarity[3, 3] = 1  # neuron 1 of parent 0 and neuron 0 of parent 1 are live
    labels, _ = zip_neurons(similarity, torch.arange(2).repeat_interleave(3), 3, b=0.0)
    assert labels.tolist() == [0, 1, 2, 1, 0, 2]
