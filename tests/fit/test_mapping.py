"""The parents' weights on the fused inputs, against plain loops."""

import numpy as np
import pytest
import torch
from torch import nn

from retrofit_core.fusion.mapping import mapped_weights
from retrofit_core.networks.levels import partition
from tests import reference
from tests.flat import fuse
from tests.networks import CNN_SHAPE, cnn, initialised, mlp, normal, permuted, shuffled
from tests.properties import as_groups, assert_same_function


@pytest.mark.parametrize("make, shape, positions", [(mlp, (6,), (0, 2, 4)), (cnn, CNN_SHAPE, (0, 3, 7))])
@pytest.mark.parametrize("bias", [True, False])
def test_equals_the_loops(make, shape, positions, bias):
    parents = [make(bias=bias, seed=k) for k in range(2)]
    levels = [partition(parent, normal(2, *shape)) for parent in parents]
    steps = [reference.described(parent) for parent in parents]
    for index in range(1, 3):
        width = levels[0][index - 1].width
        labels = torch.arange(2 * width).roll(1) % width
        before = {"widths": [width, width], "groups": as_groups(labels, width)}
        weights = mapped_weights(levels[0][index], [level[index] for level in levels], [(labels.split(width), width)])
        expected = np.hstack([reference.own_weights(steps[k], positions[index], before, k) for k in range(2)])
        assert np.abs(weights.numpy() - expected).max() < 1e-12
    first = mapped_weights(levels[0][0], [level[0] for level in levels], [None])
    assert (
        np.abs(first.numpy() - np.hstack([reference.own_weights(s, 0, None, k) for k, s in enumerate(steps)])).max()
        == 0
    )


def test_members_of_one_group_add_up_and_absent_ones_give_zero():
    model = mlp((6, 3, 2))
    levels = partition(model, normal(2, 6))
    labels = torch.tensor([1, 1, 2, 0, 0, 0])  # parent 0 has nobody in group 0, two neurons in group 1
    W0 = mapped_weights(levels[1], [levels[1], levels[1]], [(labels.split(3), 3)])
    weight = model[2].weight.detach()
    assert torch.equal(W0[0, :2], torch.zeros(2).double())
    assert torch.equal(W0[1, :2], weight[:, 0] + weight[:, 1])
    assert torch.equal(W0[2, :2], weight[:, 2])
    assert torch.equal(W0[3, :2], model[2].bias.detach())


def test_parents_whose_inputs_do_not_correspond_are_refused():
    levels, others = partition(mlp(), normal(2, 6)), partition(mlp((5, 8, 7, 4)), normal(2, 5))
    with pytest.raises(ValueError, match="level '0': parent 1 has 5 inputs per neuron where the fused level has 6"):
        mapped_weights(levels[0], [levels[0], others[0]], [None])


class Positions(nn.Module):
    """Linear layers on (B, height, width, C), as many positions as neurons."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(3, 5), nn.Linear(5, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.second(self.first(x).relu()).relu().mean((1, 2)))


def test_toward_the_parents_reads_the_neurons_and_not_the_shape():
    """A level ends (B, 5, 5, 5): by the shape alone nobody could tell where the neurons are."""
    model, x = initialised(Positions(), 0), normal(40, 5, 5, 3)
    fused = fuse([model, model], x, grouping="hungarian", toward="parents", ridge=1e8).model
    assert_same_function(model, fused, x, 1e-6)


class Concatenated(nn.Module):
    """Two levels side by side are read by a third, as in DenseNets."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(2, 4, 3), nn.Conv2d(4, 5, 3, padding=1), nn.Linear(9, 3)

    def forward(self, x):
        x = self.first(x).relu()
        return self.last(torch.cat([x, self.second(x).relu()], 1).mean((2, 3)))


def channels_last(x):
    return x.permute(0, 2, 3, 1).flatten(1)


class Flattened(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(2, 4, 4), nn.Linear(64, 3)

    def forward(self, x):
        return self.last(channels_last(self.first(x).relu()))


@pytest.mark.slow
@pytest.mark.parametrize("network", [Concatenated, Flattened])
def test_the_parents_weights_are_mapped_wherever_the_inputs_are_neurons(network):
    model, few, new = initialised(network(), 0), normal(4, *CNN_SHAPE), normal(50, *CNN_SHAPE, seed=1)
    twin = shuffled(model, few, 3)
    fused = fuse([model, twin], few, grouping="hungarian", toward="parents", device="cpu").model
    assert_same_function(model, fused, new, 1e-5)


@pytest.mark.parametrize("grouping", ["hungarian", "kmeans"])
def test_a_reordered_copy_of_a_chain_survives_a_handful_of_samples(grouping):
    """By default the ridge of a chain pulls to the parents' weights, so what the samples do not show remains."""
    model, few, new = cnn(seed=0), normal(4, *CNN_SHAPE), normal(50, *CNN_SHAPE, seed=1)
    fused = fuse([model, permuted(model)], few, grouping=grouping, device="cpu").model
    assert_same_function(model, fused, new, 1e-5)


def test_by_default_the_ridge_pulls_to_zero_inside_blocks():
    parents, x = [initialised(Concatenated(), seed) for seed in range(2)], normal(30, *CNN_SHAPE)
    usual, zero = (fuse(parents, x, device="cpu", **options).model for options in ({}, {"toward": "zero"}))
    assert_same_function(usual, zero, x, 0)
