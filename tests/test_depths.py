"""Networks of blocks: twins recovered, streams ordered, depths aligned, BatchNorm's statistics, memory budgets."""

import copy
import re

import pytest
import torch
from torch import nn

from retrofit_core.networks.architectures import build
from tests.flat import fuse
from tests.networks import CNN_SHAPE, VGG_SHAPE, cnn, initialised, normal, residual
from tests.properties import assert_close, assert_same_function

GRADIENT = {"fit": "gradient", "epochs": 1, "device": "cpu"}


def resnet(layers=(1, 1), width=4, seed=0, **options):
    """With BatchNorm statistics that are not those of a fresh network."""
    model = build(
        {"architecture": "resnet", "layers": layers, "width": width, "classes": 4, "size": 8, **options}, seed
    )
    draw = torch.Generator().manual_seed(seed)
    for norm in (module for module in model.modules() if isinstance(module, nn.BatchNorm2d)):
        for tensor, low in ((norm.weight.data, 0.5), (norm.bias.data, -0.5), (norm.running_mean, -0.5)):
            tensor.copy_(low + torch.rand(tensor.shape, generator=draw))
        norm.running_var.copy_(0.5 + torch.rand(norm.running_var.shape, generator=draw))
    return model.eval()


class Turned(nn.Module):
    """A block whose skip leads through a function."""

    def __init__(self, skip):
        super().__init__()
        self.layer, self.skip = nn.Linear(8, 8), skip

    def forward(self, x):
        return self.skip(x) + self.layer(x).relu()


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
        for skip in (lambda x: x.mean(1, keepdim=True).expand_as(x), torch.relu)
    )
    parents = [initialised(with_skip, 0), initialised(plain, 1)]
    result = fuse(parents, normal(60, 6), **GRADIENT)
    assert [level.stream for level in result.levels] == ["", "", ""]
    with pytest.raises(ValueError, match="skips join them to others"):
        fuse(parents, normal(60, 6))


@pytest.mark.slow
def test_a_deeper_parent_is_aligned_stage_by_stage():
    deep, shallow = resnet((3, 2), seed=0), resnet((1, 2), seed=1)
    result = fuse([deep], normal(30, *VGG_SHAPE).float(), target=shallow, **GRADIENT)
    assert [level.name for level in result.levels] == ["conv1", "layer1.0", "layer2.0", "layer2.1", "fc"]
    both = fuse([deep, shallow], normal(30, *VGG_SHAPE).float(), target=shallow, **GRADIENT)
    assert [level.widths for level in both.levels] == [(4, 4), (4, 4), (8, 8), (8, 8), (4, 4)]


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


@pytest.mark.slow
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
