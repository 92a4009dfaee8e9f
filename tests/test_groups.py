"""Groups of neurons that baselines align: what makes, reads and holds them, where they are recorded, how they are mapped."""

import pytest
import torch

from retrofit_core import METHODS
from retrofit_core.graph.graph import load, weights_of
from retrofit_core.system.duplicates import duplicate
from tests.families import FOLLOWED, NETWORKS, network
from tests.marks import each_case
from tests.networks import mlp, normal
from tests.properties import assert_same_function, net_of, reordered
from tests.test_own_code import OWN_LAYERS


def orders_of(groups):
    generator = torch.Generator().manual_seed(1)
    return {group.name: torch.randperm(group.width, generator=generator) for group in groups if not group.fixed}


@pytest.mark.parametrize("kind", OWN_LAYERS)
def test_weights_that_a_layer_computes_line_by_line_have_neurons(kind):
    torch.manual_seed(0)
    model, shape = OWN_LAYERS[kind]()
    model, x = model.double().eval(), normal(6, *shape)
    net, groups = net_of(model, x)
    assert any(not group.fixed for group in groups)
    moved = reordered(net.weights, groups, orders_of(groups))
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


@pytest.mark.slow
@each_case("name", NETWORKS)
def test_the_classes_come_last_and_stay(name):
    make, shape = NETWORKS[name]
    _, groups = net_of(make(), normal(2, *shape))
    assert [group.fixed for group in groups] == [False] * (len(groups) - 1) + [True]


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
