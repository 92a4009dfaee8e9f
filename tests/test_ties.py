"""Silent, constant and duplicate neurons: every processor pairs them in the same way, and each with its own copy."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from retrofit_core import METHODS
from retrofit_core.networks.architectures import build
from tests.another_order import AnotherOrder
from tests.marks import each_case, spread
from tests.networks import labels, normal

pytestmark = pytest.mark.slow

MATCHING = {
    "HF-Linear": {},
    "Git-Re-Basin": {},
    "ZipIt": {},
    "PLeaS": {},
    "OTFusion": {},
    "OTFusion, weights": {"mode": "weights"},
    "Transformer-OTFusion": {"solver": "exact"},
    "Transformer-OTFusion, weights": {"mode": "weights", "solver": "exact"},
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


@pytest.mark.long
@each_case("method, name", spread(MATCHING, NETWORKS, 1))
def test_another_order_of_additions_pairs_the_same_neurons(method, name):
    (spec, shape), dtype = NETWORKS[name], torch.float64 if name == "mlp" else torch.float32
    parents = [with_ties(spec, seed, dtype) for seed in range(2)]
    fusion, options = data(shape, dtype), {"device": "cpu", **MATCHING[method]}
    here = METHODS[method.split(",")[0]](parents, fusion, **options)
    with AnotherOrder(0):
        there = METHODS[method.split(",")[0]](parents, fusion, **options)
    for one, other in zip(here.levels, there.levels, strict=True):
        assert one.labels.tolist() == other.labels.tolist(), one.name
    if dtype == torch.float64:
        for one, other in zip(here.model.parameters(), there.model.parameters(), strict=True):
            assert (one - other).norm() <= 1e-9 * other.norm() + 1e-12


@each_case("method, name", spread([name for name in MATCHING if name not in ("HF-Linear", "PLeaS")], NETWORKS, 1))
def test_every_neuron_is_paired_with_its_own_copy(method, name):
    spec, shape = NETWORKS[name]
    parent = with_ties(spec, 0)
    fused = METHODS[method.split(",")[0]](
        [parent, copy.deepcopy(parent)], data(shape), device="cpu", **MATCHING[method]
    ).model
    for one, own in zip(fused.parameters(), parent.parameters(), strict=True):
        assert torch.allclose(one, own, rtol=0, atol=1e-12)
