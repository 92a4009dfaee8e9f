"""Groups of neurons that baselines align: what makes, reads and holds them, where they are recorded, how they are mapped."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from retrofit_core import METHODS
from retrofit_core.baselines.watch import correlation, group_sums
from retrofit_core.fusion.alignment import mapped, reordered_tensors
from retrofit_core.graph.graph import load, weights_of
from retrofit_core.system.duplicates import duplicate
from tests.families import FOLLOWED, NETWORKS, network
from tests.marks import each_case
from tests.networks import initialised, mlp, normal
from tests.properties import assert_close, assert_same_function, net_of
from tests.test_own_code import OWN_LAYERS


def orders_of(groups):
    generator = torch.Generator().manual_seed(1)
    return {group.name: torch.randperm(group.width, generator=generator) for group in groups if not group.fixed}


@each_case("name", ["mlp", "vgg with a flatten", "BatchNorm, no bias", "resnet", "vit"])
def test_mapping_with_permutations_is_permuting_and_keeps_the_function(name):
    make, shape = NETWORKS[name]
    model, x = make(), normal(6, *shape)
    net, groups = net_of(model, x)
    orders = orders_of(groups)
    maps = {group: (torch.eye(len(order)).double()[order].T,) * 2 for group, order in orders.items()}
    moved = reordered_tensors(net.weights, groups, orders)
    assert_same_function(load(duplicate(model), moved), model, x, 1e-9)
    for name, tensor in mapped(net.weights, net.weights, groups, groups, maps).items():
        assert_close(tensor, moved[name], 1e-14)


@pytest.mark.parametrize("kind", OWN_LAYERS)
def test_weights_that_a_layer_computes_line_by_line_have_neurons(kind):
    torch.manual_seed(0)
    model, shape = OWN_LAYERS[kind]()
    model, x = model.double().eval(), normal(6, *shape)
    net, groups = net_of(model, x)
    assert any(not group.fixed for group in groups)
    moved = reordered_tensors(net.weights, groups, orders_of(groups))
    assert_same_function(load(duplicate(model), moved), model, x, 1e-9)
    assert any(not torch.equal(moved[name], tensor) for name, tensor in weights_of(model).items())


@each_case("name", FOLLOWED)
def test_groups_are_whole(name):
    model, x = network(name)
    _, groups = net_of(model, x[:4])
    assert {group.name: group.width for group in groups} == FOLLOWED[name][2]
    parts = {part.name for group in groups for part in group.parts}
    assert not parts & {"table", "norm.weight"}  # which hold no neurons
    assert name != "sums of products in words" or "relative" in parts


@each_case("name", NETWORKS)
def test_the_classes_come_last_and_stay(name):
    make, shape = NETWORKS[name]
    _, groups = net_of(make(), normal(2, *shape))
    assert [group.fixed for group in groups] == [False] * (len(groups) - 1) + [True]


@pytest.mark.parametrize("name", ["mlp", "cnn", "BatchNorm, no bias"])
def test_sums_are_those_of_what_layers_return(name):
    make, shape = NETWORKS[name]
    model, x = make(), normal(7, *shape)
    net, groups = net_of(model, x)
    found = iter(group_sums([net, net], [groups, groups], [x]))
    for module, after in zip(model, [*model[1:], None], strict=True):
        x = module(x).detach()
        if hasattr(module, "weight") and not isinstance(after, (nn.BatchNorm1d, nn.BatchNorm2d)):
            rows, sums = x.movedim(1, -1).flatten(0, -2), next(found)
            z = torch.cat([rows, rows], 1)
            assert sums.rows == len(rows)
            assert_close(sums.zz, z.T @ z, 1e-10)
            assert_close(sums.sz, z.sum(0), 1e-10)
            assert_close(correlation(sums), torch.corrcoef(z.T), 1e-8)
    assert next(found, None) is None


def test_a_stream_is_recorded_at_its_sums_and_heads_are_apart():
    make, shape = NETWORKS["vit"]
    _, groups = net_of(make(), normal(4, *shape))
    named = {group.name: group for group in groups}
    assert [point.node.name.partition("_")[0] for point in named["embedding"].points] == ["linear", *["add"] * 4]
    roles = {(part.name, part.axis): part.role for part in named["embedding"].parts}
    assert roles["cls", 2] == roles["norm.weight", 0] == "holds"
    assert roles["embedding.weight", 0] == "makes" and roles["head.weight", 1] == "reads"
    assert ("head.bias", 0) not in roles
    heads = {f"blocks.{block}.attention.{kind}[{head}]": 4 for block in (0, 1) for kind in "qv" for head in range(3)}
    widths = {**heads, "embedding": 12, "blocks.0.mlp.0": 7, "blocks.1.mlp.0": 7, "head": 4}
    assert {name: group.width for name, group in named.items()} == widths


@each_case(
    ("other", "message"),
    [
        (mlp((6, 5, 5, 4)), "parent 1: its neurons at '2' have no counterpart in the fused network, .* '2'"),
        (mlp((6, 5, 3)), "the networks have 4 and 3 classes"),
    ],
)
def test_networks_that_do_not_correspond_are_refused(other, message):
    with pytest.raises(ValueError, match=message):
        METHODS["ZipIt"].plan([mlp((6, 5, 4)), other], normal(6, 6))


class Words(nn.Module):
    """A stream whose sum and function can be spelled in several ways."""

    def __init__(self, join):
        super().__init__()
        self.join, self.a, self.b, self.head = join, nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        h = self.a(x)
        return self.head(self.join(h.relu(), self.b(h.relu())))


@each_case(
    ("one", "other"),
    [
        (lambda h, y: torch.addcmul(h, y, y.tanh(), value=0.3), lambda h, y: h + y * y.tanh() * 0.3),
        (lambda h, y: y * y.sigmoid(), lambda h, y: F.silu(y)),
        (lambda h, y: y - y.tanh(), lambda h, y: nn.Tanhshrink()(y)),
    ],
)
def test_one_function_in_two_spellings_is_aligned_alike(one, other):
    x, pairs = normal(40, 6), [[initialised(Words(join), seed) for seed in range(2)] for join in (one, other)]
    for method in ("Git-Re-Basin", "ZipIt"):
        first, second = (METHODS[method](pair, x).model for pair in pairs)
        for ours, theirs in zip(first.parameters(), second.parameters(), strict=True):
            assert_close(ours, theirs, 1e-10)
