"""Vanilla averaging: the mean of the parents' weights, without any alignment (paper sec. 2.1)."""

import copy
from collections.abc import Sequence

import torch
from torch import nn


@torch.no_grad()
def average(models: Sequence[nn.Module]) -> nn.Module:
    """A new network with the mean of every parameter and buffer; integer buffers stay parent 0's.

    Raises:
        ValueError: no models, or different keys or shapes.
    """
    if not models:
        raise ValueError("there is nothing to average. Pass a list of at least one model.")
    fused = copy.deepcopy(models[0])
    states = [model.state_dict() for model in models]
    for name, value in fused.state_dict().items():
        shapes = [tuple(state[name].shape) if name in state else None for state in states]
        if set(shapes) != {tuple(value.shape)}:
            raise ValueError(f"weights cannot be averaged: {name!r} has the shapes {shapes}. Use a KF method.")
        if value.dtype.is_floating_point:
            value.copy_(torch.stack([state[name] for state in states]).mean(0))
    return fused
