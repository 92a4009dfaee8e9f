"""Groups of neurons that baselines align: what makes, reads and holds them, where they are recorded, how they are mapped."""

import pytest
import torch

from retrofit_core import METHODS
from retrofit_core.fusion.alignment import mapped
from retrofit_core.graph.graph import load, weights_of
from retrofit_core.networks.symmetry.maps import reordered_tensors
from retrofit_core.system.duplicates import duplicate
from tests.marks import each_case
from tests.networks import mlp, normal
from tests.properties import assert_close, assert_same_function, net_of
from tests.test_own_code import OWN_LAYERS
from tests.test_symmetry import NETWORKS


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


def test_a_stream_is_recorded_at_its_sums_and_heads_are_apart():
    make, shape = NETWORKS["vit"]
    _, groups = net_of(make(), normal(4, *shape))
    named = {group.name: group for group in groups}
    assert [point.node.name.partition("_")[0] for point in named["embedding"].points] == ["linear", *["add"] * 4]
    roles = {(part.name, part.axis): part.role for part in named["embedding"].parts}
    assert roles["cls", 2] == roles["norm.weight", 0] == "holds"
    assert roles["embedding.weight", 0] == "makes" and roles["head.weight", 1] == "reads"
    assert [named[f"blocks.0.attention.q[{head}]"].width for head in range(3)] == [4, 4, 4]
    assert groups[-1].fixed and not any(group.fixed for group in groups[:-1])


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
