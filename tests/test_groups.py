"""Groups of neurons that baselines align: what makes, reads and holds them, where they are recorded, how they are mapped."""

import pytest
import torch
from torch import nn

from retrofit_core import METHODS
from retrofit_core.baselines.watch import correlation, group_sums
from retrofit_core.fusion.alignment import mapped, reordered_tensors
from retrofit_core.graph.graph import load, weights_of
from retrofit_core.system.duplicates import duplicate
from tests.families import FOLLOWED, NETWORKS, network
from tests.marks import each_case
from tests.networks import mlp, normal
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
