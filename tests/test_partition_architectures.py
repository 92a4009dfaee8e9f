"""Partition of the architectures that the paper fuses, ours and torchvision's, which nobody adapted."""

from collections.abc import Sequence

import pytest
import torch
import torchvision
from torch import Tensor, nn

from retrofit_core.networks.architectures import build, parse
from retrofit_core.networks.levels import Level, compose, partition
from tests.marks import each_case
from tests.networks import normal
from tests.properties import assert_close, assert_reproduces

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
    "our resnet34, ImageNet stem": (
        lambda: ours({**parse("resnet34-imagenet"), **RESNET, "size": 32}),
        (3, 32, 32),
        18,
    ),
    "our resnet50": (lambda: ours({**parse("resnet50"), **RESNET, "size": 8}), (3, 8, 8), 18),
    "our resnet, enlarged": (lambda: ours({**RESNET, "imagenet_stem": True, "channels": 1, "size": 8}), (1, 8, 8), 10),
    "our vit": (lambda: ours({**VIT, "size": 8}), (3, 8, 8), 8),
    "our vit, enlarged": (lambda: ours({**VIT, "channels": 1, "size": 5, "resize": 8}), (1, 5, 5), 8),
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
    "vit_b_16": (lambda: torchvisions("vit_b_16", image_size=32), (3, 32, 32), 26),
}


def assert_each_parameter_in_one_level(model: nn.Module, levels: Sequence[Level]) -> None:
    """The levels hold the model's own parameters, or a folded layer in the place of a layer and its BatchNorm."""
    held = [id(parameter) for level in levels for parameter in level.module.parameters()]
    assert len(set(held)) == len(held)
    folds = [fold for level in levels for fold in level.folds]
    replaced = {id(p) for fold in folds for part in fold.modules for p in part.parameters()}
    folded = {id(p) for fold in folds for p in fold.layer.parameters()}
    assert set(held) == {id(parameter) for parameter in model.parameters()} - replaced | folded


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


@each_case("name", NETWORKS)
def test_widths_axes_and_positions_are_those_of_the_boundary_tensors(name):
    make, shape, _ = NETWORKS[name]
    model, h = make(), normal(2, *shape).float()
    with torch.no_grad():
        for index, level in enumerate(partition(model, h)):
            h = level.module(h)
            assert h.shape[level.axis] == level.width
            assert h[0].numel() == level.width * level.positions
            # Swin's convolution is followed by a permutation to (B, H, W, C), which then stays.
            last = h.ndim == 3 or (name == "swin_t" and h.ndim == 4 and index > 0)
            assert level.axis == (-1 if last else 1)


@pytest.mark.parametrize("name", ["our resnet18", "our resnet50", "our vit", "resnet18", "mobilenet_v3_small"])
def test_a_model_can_be_written_level_by_level(name):
    make, shape, _ = NETWORKS[name]
    model, x = make(), normal(3, *shape).float()
    levels = partition(model, x)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for level in levels:
            for parameter in level.module.parameters():
                parameter += 0.05 * parameter.std() * torch.randn(parameter.shape, generator=generator)
        expected = compose(levels, x)
        for level in levels:
            level.put_back()
        assert_close(model(x), expected, 1e-4)


RESNET_BLOCKS = [f"layer{stage}.{block}" for stage in range(1, 5) for block in range(2)]


@pytest.mark.parametrize(
    "name, boundaries, widths, positions",
    [
        ("our resnet18", ["relu", *RESNET_BLOCKS], [4, 4, 4, 8, 8, 16, 16, 32, 32, 5], [64] * 3 + [16] * 2),
        ("our resnet, enlarged", ["maxpool", *RESNET_BLOCKS], [4, 4, 4, 8, 8, 16, 16, 32, 32, 5], [64] * 3 + [16] * 2),
        ("resnet18", ["maxpool", *RESNET_BLOCKS], [64] * 3 + [128] * 2 + [256] * 2 + [512] * 2 + [1000], [256] * 3),
        ("our vit", ["blocks.0", "blocks.1", "blocks.2"], [12, 12, 12, 5], [17, 17, 17, 1]),
        ("our vit", ["blocks.0", "blocks.1", "first"], [12, 12, 12, 5], [17, 17, 1, 1]),
    ],
)
def test_levels_of_gradient_methods_end_at_blocks(name, boundaries, widths, positions):
    make, shape, _ = NETWORKS[name]
    model, x = make(), normal(3, *shape).float()
    levels = partition(model, x, boundaries)
    assert [level.width for level in levels] == widths
    assert [level.positions for level in levels][: len(positions)] == positions
    assert_reproduces(model, levels, x, exact=not any(level.folds for level in levels))
    assert_each_parameter_in_one_level(model, levels)


@each_case(
    "name, expected",
    [
        ("our resnet18", [(4, 64)] * 3 + [(8, 16)] * 2 + [(16, 4)] * 2 + [(32, 1)] * 2 + [(5, 1)]),
        # Stem, of which the pooling is a part, blocks, head.
        ("resnet18", [(64, 256)] * 3 + [(128, 64)] * 2 + [(256, 16)] * 2 + [(512, 4)] * 2 + [(1000, 1)]),
        (
            "resnet50",
            [(64, 256)] + [(256, 256)] * 3 + [(512, 64)] * 4 + [(1024, 16)] * 6 + [(2048, 4)] * 3 + [(1000, 1)],
        ),
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


class Nested(nn.Module):
    """A block within a block, and a sum of the whole network's own, which has no name."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.act = nn.Linear(4, 4), nn.Tanh()
        self.outer = Skip(nn.Linear(4, 4), first=Skip(nn.Linear(4, 4)))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.stem(x) + x)
        return self.head(self.outer(x))


class Skip(nn.Module):
    def __init__(self, inner: nn.Module, first: nn.Module | None = None) -> None:
        super().__init__()
        self.first, self.inner = first or nn.Identity(), inner

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return x.add(self.inner(x))


def test_the_outermost_of_nested_blocks_counts():
    levels = partition(Nested().eval(), normal(2, 4).float(), "blocks")
    assert [level.parameters for level in levels] == [20, 40, 10]


def test_the_enlarging_belongs_to_the_first_level():
    make, shape, _ = NETWORKS["our vgg11, enlarged"]
    model, x = make(), normal(2, *shape).float()
    first = partition(model, x)[0]
    assert first.kind == "Conv2d" and first.positions == 16 * 16
    assert first.inputs(x).shape == (2 * 16 * 16, 9)
    rows: Tensor = first.inputs(x) @ first.affine.weight.flatten(1).T + first.affine.bias
    with torch.no_grad():
        assert_close(rows, first.module(x).permute(0, 2, 3, 1).flatten(0, 2), 1e-5)


def test_the_embedding_of_a_vit_is_affine_in_its_patches():
    make, shape, _ = NETWORKS["our vit"]
    levels = partition(make(), normal(2, *shape).float())
    assert [level.kind for level in levels][:2] == ["Linear", "not affine"]
    assert levels[0].inputs(normal(2, *shape).float()).shape == (2 * 16, 12)
    # Class token, positions, LayerNorm, q, k, v, o.
    assert levels[1].why_not_affine.startswith("it holds 7 layers with parameters (cls, positions, blocks.0.norm1,")
