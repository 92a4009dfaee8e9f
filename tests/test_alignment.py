"""An alignment is a result: where each parent's neurons stand in the fused network, and the parents in that order."""

import copy

import pytest
import torch

from retrofit_core import METHODS, permuted
from retrofit_core.graph.graph import weights_of
from tests.families import NETWORKS
from tests.marks import each_case, spread
from tests.networks import mlp, normal, shuffled
from tests.properties import assert_close, assert_same_function, untouched
from tests.test_twins import twins

pytestmark = pytest.mark.slow

ARCHITECTURES = ("mlp", "vgg with a flatten", "vgg with BatchNorm", "resnet", "vit")
#: Methods that put whole neurons into groups; exact transport between equal widths does as well.
WHOLE = {
    "OTFusion": {},
    "OTFusion, weights": {"mode": "weights"},
    "Git-Re-Basin": {},
    "ZipIt": {"reset_norms": False},
    "PLeaS": {"reset_norms": False},
}
SOFT = ("OTFusion", "Transformer-OTFusion", "ZipIt")
#: In these every group is a pair of neurons, whatever the parents.
PAIRING = ("OTFusion", "OTFusion, weights", "Git-Re-Basin")


def pair(name):
    """Two networks that have nothing in common but their widths, and data."""
    make, shape = NETWORKS[name]
    first, x = make(), normal(30, *shape)
    second = shuffled(first, x, 3)
    for number, parameter in enumerate(second.parameters()):
        parameter.data += normal(*parameter.shape, seed=50 + number)
    return [first, second], x


def mean_of_parents(alignment):
    """The weighted mean of the aligned parents' parameters and statistics."""
    states = [weights_of(parent) for parent in alignment.parents()]
    return {
        name: sum(share * state[name].double() for share, state in zip(alignment.shares, states, strict=True))
        for name, tensor in states[0].items()
        if tensor.is_floating_point()
    }


@pytest.mark.long
@each_case("method, name", spread(WHOLE, ARCHITECTURES, 1))
def test_the_aligned_parent_of_a_shuffled_copy_is_the_original(name, method):
    model, twin, x = twins(name)
    with untouched(model, twin):
        result = METHODS[method.split(",")[0]]([model, twin], x, device="cpu", **WHOLE[method])
        first, second = result.alignment.parents()
    for key, tensor in weights_of(model).items():
        assert torch.equal(weights_of(first)[key], tensor), key
        assert_close(weights_of(second)[key], tensor, 1e-12)
    for group in result.alignment.groups:
        assert torch.equal(group.labels[1].sort().values, torch.arange(group.width)), group.name


@each_case("method, name", spread(PAIRING, ARCHITECTURES, 1))
def test_permutations_keep_the_function_and_average_to_the_fused_network(name, method):
    parents, x = pair(name)
    result = METHODS[method.split(",")[0]](parents, x, device="cpu", **WHOLE[method])
    for parent, aligned in zip(parents, result.alignment.parents(), strict=True):
        assert_same_function(aligned, parent, x, 1e-9)
    orders = [group.labels[1] for group in result.alignment.groups]
    assert any(not torch.equal(order, torch.arange(len(order))) for order in orders)
    for key, mean in mean_of_parents(result.alignment).items():
        assert_close(weights_of(result.model)[key], mean, 1e-10)


@each_case("method, name", spread(SOFT, ARCHITECTURES, 1))
def test_soft_maps_and_merges_of_three_parents_average_to_the_fused_network(name, method):
    """Also where neurons are split among fused ones, or several of one parent stand together."""
    (first, second), x = pair(name)
    third = copy.deepcopy(second)
    for number, parameter in enumerate(third.parameters()):
        parameter.data += normal(*parameter.shape, seed=90 + number)
    options = {"ZipIt": {"b": 1.0, "reset_norms": False}, "OTFusion": {"solver": "sinkhorn"}}.get(method, {})
    result = METHODS[method]([first, second, third], x, device="cpu", **options)
    alignment = result.alignment
    expected = (0.5, 0.25, 0.25) if method.startswith("Transformer") else (1 / 3,) * 3
    assert alignment.shares == pytest.approx(expected)
    for key, mean in mean_of_parents(alignment).items():
        assert_close(weights_of(result.model)[key], mean, 1e-10)
    if method != "ZipIt":
        for group in alignment.groups:
            for k in range(3):
                assert_close(group.maps(k)[0].sum(0), torch.ones(group.width), 1e-5)


def test_parents_of_other_widths_are_written_into_the_fused_ones():
    parents, x = [mlp((6, 8, 7, 4)), mlp((6, 5, 9, 4), seed=2)], normal(30, 6)
    for target in (None, mlp((6, 6, 10, 4))):
        result = METHODS["OTFusion"](parents, x, target=target, device="cpu")
        assert [group.maps(1)[0].shape for group in result.alignment.groups] == [
            (level.widths[1], level.width) for level in result.levels
        ]
        for key, mean in mean_of_parents(result.alignment).items():
            assert_close(weights_of(result.model)[key], mean, 1e-10)


def test_repair_and_fits_come_behind_the_alignment():
    """The aligned parents are as they were before: REPAIR and least squares change the fused network alone."""
    parents, x = pair("mlp")
    plain, repaired = (METHODS["Git-Re-Basin"](parents, x, repair=wanted, device="cpu") for wanted in (False, True))
    for key, mean in mean_of_parents(repaired.alignment).items():
        assert_close(weights_of(plain.model)[key], mean, 1e-12)
    strong = METHODS["PLeaS"](parents, x, ridge="1e9x", device="cpu")
    for key, mean in mean_of_parents(strong.alignment).items():
        if key.endswith("weight"):  # the ridge pulls to the mean of the aligned weights; biases have none
            assert_close(weights_of(strong.model)[key], mean, 1e-6)


def test_the_seed_of_a_permuted_network_draws_its_order():
    """tests/graph/test_graph.py says that it computes the same."""
    network, x = mlp(), normal(20, 6)
    copied, same, other = (weights_of(permuted(network, x, seed)) for seed in (1, 1, 2))
    assert all(torch.equal(tensor, same[key]) for key, tensor in copied.items())
    assert any(not torch.equal(tensor, other[key]) for key, tensor in copied.items())
