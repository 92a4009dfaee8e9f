"""Neuron groups: reordered networks compute the same, and every group is found whole."""

from types import SimpleNamespace

import pytest
import torch
import torchvision
from torch import nn

from retrofit_core.baselines.watch import correlation, group_sums
from retrofit_core.networks.architectures import build
from retrofit_core.networks.levels import partition
from retrofit_core.networks.symmetry import neuron_groups, shuffled, tensors
from retrofit_core.networks.symmetry.groups import Members
from tests import families
from tests.families import FOLLOWED, network
from tests.marks import each_case
from tests.networks import (
    CNN_SHAPE,
    VGG_SHAPE,
    batchnorm_cnn,
    cnn,
    initialised,
    mlp,
    normal,
    residual,
    seeded,
    small_torchvision_vgg,
)
from tests.properties import assert_close, assert_same_function, net_of, untouched

IMAGES = (3, 16, 16)


def of_spec(**spec):
    return lambda: initialised(build(spec, seed=0), 1)


def vision(make, **keywords):
    return lambda: initialised(getattr(torchvision.models, make)(**keywords), 1)


def vision_transformer():
    model = seeded(1, torchvision.models.VisionTransformer, 16, 8, 2, 4, 24, 32, num_classes=5)
    torch.nn.init.normal_(model.class_token, generator=torch.Generator().manual_seed(2))  # zeros tell no neuron apart
    return initialised(model, 1)


VIT = {"architecture": "vit", "hidden": 12, "depth": 2, "heads": 3, "mlp_width": 7, "classes": 4, "size": 8}
NETWORKS = {
    "mlp": (mlp, (6,)),
    "cnn": (cnn, CNN_SHAPE),
    "vgg with a flatten": (of_spec(architecture="vgg", plan=[3, "M", 4, 5], classes=4, size=8), VGG_SHAPE),
    "vgg with BatchNorm": (
        of_spec(architecture="vgg", plan=[3, "M", 4], classes=4, size=8, batch_norm=True),
        VGG_SHAPE,
    ),
    "BatchNorm, no bias": (batchnorm_cnn, CNN_SHAPE),
    "residual": (residual, CNN_SHAPE),
    "resnet": (of_spec(architecture="resnet", layers=[2, 2], width=4, classes=4, size=8), VGG_SHAPE),
    "bottleneck": (of_spec(architecture="resnet", layers=[1, 2], width=3, bottleneck=True, size=8), VGG_SHAPE),
    "vit": (of_spec(**VIT), VGG_SHAPE),
    "shared": (lambda: initialised(families.twice(), 1), (3,)),
    "joined": (lambda: initialised(families.side_by_side(), 1), VGG_SHAPE),
    "gate in a chain": (lambda: initialised(families.gated(), 1), (6,)),
    "two heads": (lambda: initialised(families.early(families.JOINS["mean"], 8), 1), (6,)),
    "gated heads": (lambda: initialised(families.early(families.JOINS["gated"], 8), 1), (6,)),
    "torchvision vit": (vision_transformer, IMAGES),
    "torchvision vgg_bn": (lambda: small_torchvision_vgg(True).double(), VGG_SHAPE),
    "torchvision squeezenet": (vision("squeezenet1_1", num_classes=5), (3, 32, 32)),
}
SMALLEST = "torchvision mobilenet_v3"
LARGE = {
    SMALLEST: vision("mobilenet_v3_small", num_classes=5),
    "torchvision resnet18": vision("resnet18", num_classes=5),
    "torchvision convnext": vision("convnext_tiny", num_classes=5),
    "torchvision densenet": vision("densenet121", num_classes=5),
    "torchvision shufflenet": vision("shufflenet_v2_x0_5", num_classes=5),
    "torchvision googlenet": vision("googlenet", num_classes=5, init_weights=False),
}


def assert_shuffles(model, x):
    with untouched(model):
        twin = shuffled(model, x, torch.Generator().manual_seed(3))
    assert_same_function(model, twin, x, 1e-10)
    new, old = tensors(twin), tensors(model)
    assert any(not torch.equal(new[name], tensor) for name, tensor in old.items())
    assert model(x).std() > 1e-3  # the outputs say something


@pytest.mark.slow
@each_case("name", NETWORKS)
def test_shuffled_networks_compute_the_same(name):
    make, shape = NETWORKS[name]
    assert_shuffles(make(), normal(4, *shape))


@pytest.mark.slow
@pytest.mark.parametrize("name", [SMALLEST, *(pytest.param(name, marks=pytest.mark.long) for name in [*LARGE][1:])])
def test_shuffled_networks_of_torchvision_compute_the_same(name):
    torch.manual_seed(0)
    assert_shuffles(LARGE[name](), normal(2, 3, 64, 64))


@pytest.mark.slow
@each_case("name", FOLLOWED)
def test_neurons_are_followed(name):
    model, x = network(name)
    assert_shuffles(model, x[:4])
    groups = neuron_groups(model, x[:4])
    assert {group.name: group.width for group in groups} == FOLLOWED[name][2]
    parts = {part.name for group in groups for part in group.parts}
    assert not parts & {"table", "norm.weight"}  # which hold no neurons
    assert name != "sums of products in words" or "relative" in parts


def widths(name):
    make, shape = NETWORKS[name]
    return {group.name: group.width for group in neuron_groups(make(), normal(2, *shape))}


def test_a_transformer_has_one_stream_and_its_heads_apart():
    sizes = widths("vit")
    assert sizes["embedding"] == 12
    for block in (0, 1):
        for kind in ("q", "v"):
            assert [sizes[f"blocks.{block}.attention.{kind}[{head}]"] for head in range(3)] == [4, 4, 4]
        assert sizes[f"blocks.{block}.mlp.0"] == 7
    assert len(sizes) == 1 + 2 * 7 + 1
    make, shape = NETWORKS["vit"]
    stream = neuron_groups(make(), normal(2, *shape))[0]
    assert {"cls", "positions", "head.weight", "norm.weight"} <= {part.name for part in stream.parts}
    assert "head.bias" not in {part.name for part in stream.parts}


@pytest.mark.slow
def test_the_classes_come_last_and_stay():
    for name, (make, shape) in NETWORKS.items():
        groups = neuron_groups(make(), normal(2, *shape))
        assert [group.fixed for group in groups] == [False] * (len(groups) - 1) + [True], name


class Odd(nn.Module):
    def forward(self, x):
        return x.cumsum(1)


def test_an_operation_without_a_rule_is_named():
    strange = initialised(nn.Sequential(nn.Linear(4, 5), nn.LPPool1d(2, 1), nn.Linear(5, 2)), 0)
    with pytest.raises(ValueError, match=r"not known which neurons belong together behind the LPPool1d '1'"):
        neuron_groups(strange, normal(2, 3, 4))
    with pytest.raises(ValueError, match=r"behind cumsum\(\)"):
        neuron_groups(nn.Sequential(nn.Linear(4, 5), Odd(), nn.Linear(5, 2)).double(), normal(2, 4))


def test_a_norm_in_float32_within_a_float64_network_is_no_other_function():
    """As the RMSNorms of Llama: another order of the neurons rounds their sum otherwise."""

    class Norm(nn.Module):
        def forward(self, x):
            h = x.to(torch.float32)
            return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True))).to(x.dtype)

    model = initialised(nn.Sequential(nn.Linear(6, 9), Norm(), nn.Linear(9, 3)), 0)
    assert [(group.width, group.fixed) for group in neuron_groups(model, normal(4, 6))] == [(9, False), (3, True)]


def test_what_depends_on_the_order_of_neurons_is_found_out():
    ranked = nn.Sequential(nn.Linear(4, 5), Limits(), nn.Linear(5, 2))
    with pytest.raises(ValueError, match="computes something else once its neurons are put into another order"):
        neuron_groups(initialised(ranked, 0), normal(2, 4))


class Limits(nn.Module):
    """Every neuron has a limit of its own, where no rule looks for it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("limits", torch.arange(5.0).double() - 2)

    def forward(self, x):
        return x.clamp(self.limits)


@pytest.mark.parametrize("name", ["mlp", "cnn", "BatchNorm, no bias"])
def test_sums_are_those_of_the_levels(name):
    make, shape = NETWORKS[name]
    model, x = make(), normal(7, *shape)
    net, groups = net_of(model, x)
    boundary = x
    for level, sums in zip(partition(model, x), group_sums([net, net], [groups, groups], [x]), strict=True):
        boundary = level.module(boundary)
        rows = boundary.movedim(level.axis, -1).reshape(-1, level.width).detach()
        z = torch.cat([rows, rows], 1)
        assert sums.rows == len(rows)
        assert_close(sums.zz, z.T @ z, 1e-10)
        assert_close(sums.sz, z.sum(0), 1e-10)
        assert_close(correlation(sums), torch.corrcoef(z.T), 1e-8)


def test_a_group_has_places_where_all_of_its_neurons_occur_equally_often():
    members = Members(SimpleNamespace(ids=SimpleNamespace(root=torch.arange(9))))
    members.add(0, torch.tensor([5, 3]))
    members.add(1, torch.tensor([7]))
    places = {number: index.tolist() for number, index in members.places(torch.tensor([3, 7, 5, 5, 8, 3])).items()}
    assert places == {0: [[2, 3], [0, 5]], 1: [[1]]}
    assert members.places(torch.tensor([3, 5, 3, 3])).keys() == set()  # four places, but not two of each
