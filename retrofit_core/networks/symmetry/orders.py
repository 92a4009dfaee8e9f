"""Copies of a network with permuted neurons and the same function."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from .groups import neuron_groups
from .maps import reordered


def permuted(model: nn.Module, example: Tensor, permutations: Mapping[str, Tensor]) -> nn.Module:
    """A copy with the same function and, in each group, neuron permutations[group][i] at position i.

    Args:
        permutations: by names of `neuron_groups(model, example)`; other groups stay as they are.
    Raises:
        ValueError: an unknown group, the group of the classes, or not a permutation.
    """
    groups = neuron_groups(model, example)
    movable = {group.name: group for group in groups if not group.fixed}
    for name, order in permutations.items():
        if name not in movable:
            raise ValueError(f"there is no group {name!r} to permute. Known: {', '.join(movable)}.")
        if sorted(order.tolist()) != list(range(movable[name].width)):
            raise ValueError(f"group {name!r}: this is no permutation of its {movable[name].width} neurons.")
    return reordered(model, groups, permutations)


def shuffled(model: nn.Module, example: Tensor, generator: torch.Generator) -> nn.Module:
    """A copy with the same function and the neurons of every group in random order."""
    groups = neuron_groups(model, example)
    orders = {group.name: torch.randperm(group.width, generator=generator) for group in groups if not group.fixed}
    return reordered(model, groups, orders)
