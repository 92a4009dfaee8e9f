"""A ridge that pulls to the parents' weights; tests/test_fusion.py compares them with plain loops."""

import pytest
import torch
from torch import nn

from tests.flat import fuse
from tests.networks import CNN_SHAPE, cnn, initialised, normal, permuted, shuffled
from tests.properties import assert_same_function


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
