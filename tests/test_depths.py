"""Networks of blocks: twins recovered, streams ordered, depths aligned, BatchNorm's statistics, memory budgets."""

import copy
import itertools
import re

import pytest
import torch
from torch import nn

from retrofit_core.fusion import walk
from retrofit_core.fusion.grouping import Grouping, ordered_like
from retrofit_core.fusion.joint_spaces import Levels
from retrofit_core.networks.architectures import build
from retrofit_core.networks.levels import merged, partition
from retrofit_core.networks.levels.kinds import BatchNorm
from retrofit_core.networks.norm_statistics import reset_statistics
from retrofit_core.system.runtime import Runtime
from tests.flat import fuse
from tests.marks import each_case
from tests.networks import CNN_SHAPE, VGG_SHAPE, cnn, initialised, mlp, normal, residual, widened
from tests.properties import assert_close, assert_reproduces, assert_same_function, untouched

GRADIENT = {"fit": "gradient", "epochs": 1, "device": "cpu"}


def resnet(layers=(1, 1), width=4, seed=0, **options):
    """With BatchNorm statistics that are not those of a fresh network."""
    model = build(
        {"architecture": "resnet", "layers": layers, "width": width, "classes": 4, "size": 8, **options}, seed
    )
    draw = torch.Generator().manual_seed(seed)
    for norm in (module for module in model.modules() if isinstance(module, BatchNorm)):
        for tensor, low in ((norm.weight.data, 0.5), (norm.bias.data, -0.5), (norm.running_mean, -0.5)):
            tensor.copy_(low + torch.rand(tensor.shape, generator=draw))
        norm.running_var.copy_(0.5 + torch.rand(norm.running_var.shape, generator=draw))
    return model.eval()


def vit(depth=3, seed=0, **options):
    spec = {"hidden": 12, "depth": depth, "heads": 3, "mlp_width": 10, "classes": 4, "size": 8, **options}
    return build({"architecture": "vit", **spec}, seed).eval()


@torch.no_grad()
def reorder(layers, order, axis=0):
    """Permute output (0) or input (1) neurons of layers and norms in place."""
    for layer in layers:
        names = ["weight"] if axis else ["weight", "bias", "running_mean", "running_var"]
        for tensor in (getattr(layer, name, None) for name in names):
            if tensor is not None:
                tensor.copy_(tensor.index_select(axis, order).clone())


def permuted_resnet(model):
    """The same function: another order in the stream of each stage and inside each block."""
    twin, draw = copy.deepcopy(model), torch.Generator().manual_seed(3)
    stream = torch.randperm(len(twin.conv1.weight), generator=draw)
    reorder([twin.conv1, twin.bn1], stream)
    for name in twin.stages:
        for block in twin.get_submodule(name):
            reorder([block.conv1], stream, 1)
            inner = torch.randperm(len(block.conv1.weight), generator=draw)
            reorder([block.conv1, block.bn1], inner)
            reorder([block.conv2], inner, 1)
            if not isinstance(block.downsample, nn.Identity):
                reorder([block.downsample[0]], stream, 1)
                stream = torch.randperm(len(block.conv2.weight), generator=draw)
                reorder([block.downsample[0], block.downsample[1]], stream)
            reorder([block.conv2, block.bn2], stream)
    reorder([twin.fc], stream, 1)
    return twin


@torch.no_grad()
def permuted_vit(model):
    """The same function: another order in the stream of the tokens and in each MLP."""
    twin, draw = copy.deepcopy(model), torch.Generator().manual_seed(3)
    stream = torch.randperm(model.spec["hidden"], generator=draw)
    reorder([twin.embedding, twin.norm], stream)
    for tokens in (twin.cls, twin.positions):
        tokens.copy_(tokens[..., stream].clone())
    for block in twin.blocks:
        attention = block.attention
        reorder([block.norm1, block.norm2, attention.o, block.mlp[3]], stream)
        reorder([attention.q, attention.k, attention.v, block.mlp[0]], stream, 1)
        inner = torch.randperm(len(block.mlp[0].weight), generator=draw)
        reorder([block.mlp[0]], inner)
        reorder([block.mlp[3]], inner, 1)
    reorder([twin.head], stream, 1)
    return twin


TWINS = {"resnet": (resnet, permuted_resnet), "vit": (vit, permuted_vit)}


@pytest.mark.slow
@pytest.mark.parametrize("grouping", ["hungarian", "kmeans"])
@pytest.mark.parametrize("name", TWINS)
def test_a_permuted_twin_is_recovered(name, grouping):
    make, permute = TWINS[name]
    parent = make()
    twin, x = permute(parent), normal(80, *VGG_SHAPE).float()
    assert_same_function(twin, parent, x, 1e-4)
    with untouched(parent, twin):
        result = fuse([parent, twin], x, grouping=grouping, **GRADIENT)
    assert_same_function(result.model, parent, normal(20, *VGG_SHAPE, seed=9).float(), 1e-4)
    for level in result.levels:
        first, second = level.labels.split(level.widths)
        assert torch.equal(first.sort().values, second.sort().values)  # every group holds one neuron of each
        assert level.grouping_error < 1e-5 * level.energy


def test_blocks_on_a_residual_stream_are_known():
    x = normal(2, *VGG_SHAPE).float()
    levels = partition(resnet((2, 2)), x, "blocks")
    assert [level.name for level in levels] == ["conv1", "layer1.0", "layer1.1", "layer2.0", "layer2.1", "fc"]
    assert [level.residual for level in levels] == [False, True, True, False, True, False]
    tokens = partition(vit(), x, "blocks")
    assert [level.name for level in tokens] == ["blocks.0", "blocks.1", "blocks.2.mlp.3", "head"]
    assert [level.residual for level in tokens] == [False, True, False, False]  # the last one selects the class token


class Turned(nn.Module):
    """A block whose skip leads through a function."""

    def __init__(self, skip):
        super().__init__()
        self.layer, self.skip = nn.Linear(8, 8), skip

    def forward(self, x):
        return self.skip(x) + self.layer(x).relu()


@each_case(
    ("skip", "kept"),
    [
        (lambda x: x, True),
        (torch.relu, True),
        (lambda x: 2 * x.clamp(-1, 1), True),
        (lambda x: x.flip(1), False),
        (lambda x: x.unflatten(1, (2, 4)).transpose(1, 2).flatten(1), False),
        (lambda x: x.softmax(1), False),
        (lambda x: x.mean(1, keepdim=True), False),
    ],
)
def test_a_skip_that_does_not_keep_the_neurons_in_their_places_is_none(skip, kept):
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), Turned(skip), Turned(skip), nn.Linear(8, 3))
    levels = partition(initialised(model, 0), normal(4, 6), "blocks")
    assert [level.residual for level in levels] == [False, kept, kept, False]


def test_groups_take_the_order_of_parent_0():
    """Against all orders of four groups."""
    draw = torch.Generator().manual_seed(0)
    z = torch.randn(50, 8, generator=draw, dtype=torch.float64)
    s = torch.rand(8, generator=draw).double() + 0.1
    groups = Grouping(torch.tensor([2, 0, 1, 3, 3, 1, 0, 2]), 4, 0.0)
    reordered = ordered_like(groups, z.T @ z, s, torch.arange(4))

    def distance(grouping):
        return (z @ grouping.targets(s).A - z[:, :4]).square().sum().item()

    others = [Grouping(torch.tensor(order)[groups.labels], 4, 0.0) for order in itertools.permutations(range(4))]
    assert distance(reordered) == pytest.approx(min(map(distance, others)))


@pytest.mark.parametrize("grouping", ["hungarian", "kmeans"])
def test_fused_blocks_keep_the_groups_of_the_stream(grouping):
    """A skip adds the neurons before a level to its own, so what is one neuron there is one neuron here."""
    parents, x = [residual(6, seed=k) for k in range(2)], normal(40, *CNN_SHAPE)
    result = fuse(parents, x, grouping=grouping, **GRADIENT)
    stem, first, second, _ = result.levels
    assert torch.equal(first.labels, stem.labels) and torch.equal(second.labels, stem.labels)
    assert first.stream == second.stream == stem.stream == stem.name


def test_classes_that_a_skip_adds_to_classes_stay_in_their_order():
    def network(seed):
        return initialised(
            nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), Turned(torch.relu), Turned(torch.relu)), seed
        )

    result = fuse([network(0), network(1)], normal(60, 6), **GRADIENT)
    for level in result.levels[1:]:
        assert torch.equal(level.labels, torch.arange(8).repeat(2)), level.name


def test_a_skip_that_one_parent_lacks_is_no_stream():
    plain, with_skip = (
        nn.Sequential(nn.Linear(6, 8), nn.ReLU(), Turned(skip), nn.Linear(8, 3))
        for skip in (lambda x: x.softmax(1), torch.relu)
    )
    parents = [initialised(with_skip, 0), initialised(plain, 1)]
    result = fuse(parents, normal(60, 6), boundaries="blocks", **GRADIENT)
    assert [level.stream for level in result.levels] == ["", "", ""]


def test_merged_levels_are_one_level_with_the_same_tensors():
    model, x = cnn(), normal(3, *CNN_SHAPE)
    levels = partition(model, x)
    joined = [merged(levels[:2]), *levels[2:]]
    assert_reproduces(model, joined, x)
    assert joined[0].state().keys() == {**levels[0].state(), **levels[1].state()}.keys()
    assert joined[0].affine is None and "it joins 2 levels" in joined[0].why_not_affine
    assert merged(levels[:1]) is levels[0]


@pytest.mark.slow
def test_a_deeper_parent_is_aligned_stage_by_stage():
    deep, shallow = resnet((3, 2), seed=0), resnet((1, 2), seed=1)
    result = fuse([deep], normal(30, *VGG_SHAPE).float(), target=shallow, **GRADIENT)
    assert [level.name for level in result.levels] == ["conv1", "layer1.0", "layer2.0", "layer2.1", "fc"]
    both = fuse([deep, shallow], normal(30, *VGG_SHAPE).float(), target=shallow, **GRADIENT)
    assert [level.widths for level in both.levels] == [(4, 4), (4, 4), (8, 8), (8, 8), (4, 4)]


def test_bottlenecks_are_compressed_to_basic_blocks():
    """As ResNet-50 to ResNet-18: other blocks, other depth, a quarter of the width."""
    result = fuse([resnet((3, 2), bottleneck=True)], normal(30, *VGG_SHAPE).float(), target=resnet((2, 1)), **GRADIENT)
    assert [(level.widths, level.width) for level in result.levels[1:-1]] == [((16,), 4), ((16,), 4), ((32,), 8)]
    assert all(torch.isfinite(parameter).all() for parameter in result.model.parameters())


def test_identity_blocks_are_compressed_away():
    """A ResNet with a block that does nothing is compressed to one without it, from its own weights."""
    deep = resnet((2, 1))
    with torch.no_grad():
        last = deep.layer1[1]
        last.bn2.weight.zero_(), last.bn2.bias.zero_()
    shallow = resnet((1, 1), seed=5)
    x = normal(60, *VGG_SHAPE).float()
    result = fuse([deep], x, target=shallow, **GRADIENT)
    assert_same_function(result.model, deep, x, 1e-4)


def test_vits_of_unequal_depth_are_aligned():
    result = fuse([vit(4), vit(2)], normal(30, *VGG_SHAPE).float(), target=vit(2, seed=3), **GRADIENT)
    assert len(result.levels) == 3
    assert all(torch.isfinite(parameter).all() for parameter in result.model.parameters())


def test_different_stages_are_refused():
    with pytest.raises(ValueError, match=r"the parents have \[4\] levels and the fused network 5; they must have"):
        fuse([resnet((1, 1))], normal(30, *VGG_SHAPE).float(), target=resnet((1, 1, 1)), **GRADIENT)


def test_compression_of_a_widened_network_loses_nothing():
    small = mlp(sizes=(6, 5, 4, 3))
    x = normal(200, 6)
    result = fuse([widened(small, extra=4)], x, target=mlp(sizes=(6, 5, 4, 3), seed=8), ridge=0, device="cpu")
    assert_same_function(result.model, small, x, 1e-7)


def test_reestimated_statistics_leave_the_function_as_it_is():
    model, x = resnet((2, 1)), normal(40, *VGG_SHAPE).float()
    before = copy.deepcopy(model)
    assert reset_statistics(model, x, keep_function=True, batch=7) == {"kind": "reset", "layers": 8, "dead": 0}
    assert_same_function(model, before, normal(20, *VGG_SHAPE, seed=4).float(), 1e-4)
    seen = {}
    model.layer1[0].conv1.register_forward_hook(lambda m, a, out: seen.update(out=out))
    with torch.no_grad():
        expected = model(x)
        norm = model.layer1[0].bn1
        assert_close(norm.running_mean, seen["out"].mean((0, 2, 3)), 1e-5)
        assert_close(norm.running_var, seen["out"].var((0, 2, 3), correction=0), 1e-4)
        # in training mode BatchNorm takes the statistics of the batch: the same ones here
        assert_close(model.train()(x), expected, 1e-3)
        assert (before.train()(x) - expected).abs().max() > 0.1


def test_fused_networks_keep_useful_statistics():
    parents, x = [resnet(seed=k) for k in range(2)], normal(60, *VGG_SHAPE).float()
    fused = fuse(parents, x, **GRADIENT).model
    with torch.no_grad():
        assert_close(copy.deepcopy(fused).train()(x), fused(x), 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("fit", ["ridge", "gradient"])
def test_too_small_a_budget_names_level_and_bytes(fit):
    parents, x = [cnn(seed=k) for k in range(2)], normal(30, *CNN_SHAPE)
    options = {"fit": fit, "device": "cpu", **({"epochs": 1} if fit == "gradient" else {})}
    expected = fuse(parents, x, **options).model
    need = 1
    for _ in range(10):  # the levels complain in turn
        try:
            model = fuse(parents, x, memory=need, **options).model
            break
        except ValueError as error:
            assert re.search(
                r"level '\d' needs [\d,]+ (MB|kB|bytes) for its sums, but the budget is [\d,]+ (MB|kB|bytes)",
                str(error),
            )
            assert need < (need := int(re.search(r"memory=(\d+)", str(error))[1]))
    assert need > 1
    for left, right in zip(model.parameters(), expected.parameters(), strict=True):
        assert_close(left, right, 1e-7)


def test_an_ample_budget_keeps_the_boundary_tensors():
    model, x = cnn(), normal(30, *CNN_SHAPE)
    levels = partition(model, x[:2])
    keeping = walk.Walk(Levels([levels], levels), x, Runtime(device="cpu"))
    next(iter(keeping)).moments(inputs=True)
    assert keeping.kept[0][0][0] == 1
    tight = walk.Walk(Levels([levels], levels), x, Runtime(device="cpu", memory=1))
    next(iter(tight)).moments(inputs=True)
    assert tight.kept[0][0][0] == 0
