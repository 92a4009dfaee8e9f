"""Partition of the architectures that the paper fuses, ours and torchvision's, which nobody adapted."""

from collections.abc import Sequence

import pytest
import torch
import torchvision
from torch import nn

from retrofit_core.networks.architectures import build
from retrofit_core.networks.levels import Level, partition
from tests.marks import each_case
from tests.networks import normal
from tests.properties import assert_reproduces

pytestmark = pytest.mark.slow  # large networks
VIT = {"architecture": "vit", "patch": 2, "hidden": 12, "depth": 3, "heads": 3, "mlp_width": 20, "classes": 5}
RESNET = {"architecture": "resnet", "width": 4, "classes": 5}


def with_live_batchnorms(model: nn.Module) -> nn.Module:
    """Statistics and weights that make every BatchNorm count, in evaluation mode."""
    generator = torch.Generator().manual_seed(1)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1, generator=generator)
            module.running_var.uniform_(0.5, 2, generator=generator)
            module.weight.data.uniform_(0.5, 1.5, generator=generator)
            module.bias.data.normal_(0, 0.1, generator=generator)
    return model.eval()


def ours(spec: dict) -> nn.Module:
    return with_live_batchnorms(build(spec, seed=0))


def torchvisions(name: str, **more) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return with_live_batchnorms(getattr(torchvision.models, name)(**more))


# name: (model, shape of an input, levels at pre-activations)
NETWORKS = {
    "our resnet18": (lambda: ours({**RESNET, "channels": 1, "size": 8}), (1, 8, 8), 10),
    "our vit": (lambda: ours({**VIT, "size": 8}), (3, 8, 8), 8),
    "our vgg11, enlarged": (
        lambda: ours({"architecture": "vgg", "plan": [3, "M", 4, "M", 4, 5, "M", 5, "M"], "channels": 1, "size": 8}),
        (1, 8, 8),
        6,
    ),
    "resnet18": (lambda: torchvisions("resnet18"), (3, 64, 64), 10),
    "resnet50": (lambda: torchvisions("resnet50"), (3, 64, 64), 18),
    "mobilenet_v3_small": (lambda: torchvisions("mobilenet_v3_small"), (3, 64, 64), 24),
    "convnext_tiny": (lambda: torchvisions("convnext_tiny"), (3, 64, 64), 23),
    "swin_t": (lambda: torchvisions("swin_t"), (3, 64, 64), 29),
    "vit, torchvision's class": (
        lambda: torchvision.models.VisionTransformer(
            16, 8, num_layers=3, num_heads=4, hidden_dim=16, mlp_dim=24
        ).eval(),
        (3, 16, 16),
        8,
    ),
}


def assert_each_parameter_in_one_level(model: nn.Module, levels: Sequence[Level]) -> None:
    """The levels hold the model's own parameters, or a folded layer in the place of a layer and its BatchNorm."""
    held = [id(parameter) for level in levels for parameter in level.module.parameters()]
    assert len(set(held)) == len(held)
    folds = [fold for level in levels for fold in level.folds]
    replaced = {id(p) for fold in folds for part in fold.sources for p in part.parameters()}
    folded = {id(p) for fold in folds for p in fold.layer.parameters()}
    assert set(held) == {id(parameter) for parameter in model.parameters()} - replaced | folded


@pytest.mark.long
@each_case("name", NETWORKS)
def test_untouched_networks_are_cut_at_preactivations(name):
    make, shape, count = NETWORKS[name]
    model, x = make(), normal(3, *shape).float()
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    levels = partition(model, x[:2])
    assert len(levels) == count
    assert_reproduces(model, levels, x, exact=not any(level.folds for level in levels))
    assert_each_parameter_in_one_level(model, levels)
    assert [level.head for level in levels] == [False] * (count - 1) + [True]
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state_dict().items())
    h = x
    for index, level in enumerate(levels):
        with torch.no_grad():
            h = level.module(h)
        assert h.shape[level.axis] == level.width and h[0].numel() == level.width * level.positions
        # Swin's convolution is followed by a permutation to (B, H, W, C), which then stays.
        last = h.ndim == 3 or (name == "swin_t" and h.ndim == 4 and index > 0)
        assert level.axis == (-1 if last else 1)


@each_case(
    "name, expected",
    [
        ("our resnet18", [(4, 64)] * 3 + [(8, 16)] * 2 + [(16, 4)] * 2 + [(32, 1)] * 2 + [(5, 1)]),
        # Stem, of which the pooling is a part, blocks, head.
        ("resnet18", [(64, 256)] * 3 + [(128, 64)] * 2 + [(256, 16)] * 2 + [(512, 4)] * 2 + [(1000, 1)]),
        # Embedding with the first block; the last one ends at the class token, all that the head reads.
        ("our vit", [(12, 17), (12, 17), (12, 1), (5, 1)]),
        # Its tokens are normalised before one of them is selected.
        ("vit, torchvision's class", [(16, 5)] * 3 + [(1000, 1)]),
        ("convnext_tiny", [(96, 256)] * 3 + [(192, 64)] * 3 + [(384, 16)] * 9 + [(768, 4)] * 3 + [(1000, 1)]),
        # The blocks without a skip go with the next one that has one.
        ("mobilenet_v3_small", [(24, 64)] * 2 + [(40, 16)] * 2 + [(48, 16)] + [(96, 4)] * 2 + [(1000, 1)]),
        # No blocks: one layer each.
        ("our vgg11, enlarged", [(3, 256), (4, 64), (4, 16), (5, 16), (5, 4), (10, 1)]),
    ],
)
def test_blocks_are_found_without_names(name, expected):
    make, shape, _ = NETWORKS[name]
    model, x = make(), normal(3, *shape).float()
    levels = partition(model, x, "blocks")
    assert [(level.width, level.positions) for level in levels] == expected
    assert_reproduces(model, levels, x, exact=not any(level.folds for level in levels))
    assert_each_parameter_in_one_level(model, levels)
