"""Twins: the same function from permuted neurons. What fusion must see through, with a known answer."""

import copy

import torch
from torch import Tensor, nn

from retrofit_core.fit.mapping import is_channel_major
from retrofit_core.levels import Level, compose, partition


@torch.no_grad()
def permuted(model: nn.Module, example: Tensor, generator: torch.Generator) -> nn.Module:
    """A copy of a network whose hidden neurons are shuffled, level by level; its function is unchanged but for rounding.

    Args:
        example: (B, ...) an input of the network.
    Raises:
        ValueError: a level is not affine, or does not read the neurons before it channel by channel.
    """
    was_training = model.training
    twin = copy.deepcopy(model)
    levels = partition(twin, example.to(next(twin.parameters()).dtype))
    _check(levels, example)
    for level, following in zip(levels[:-1], levels[1:], strict=True):
        order = torch.randperm(level.width, generator=generator)
        _shuffle_outputs(level, order)
        _shuffle_inputs(following, order)
    return twin.train(was_training)


def _check(levels: list[Level], example: Tensor) -> None:
    for index, level in enumerate(levels):
        why = level.why_not_affine
        if not why and index:
            boundary = compose(levels[:index], example)
            why = "" if is_channel_major(level, boundary) else "it does not read its inputs channel by channel"
        if why:
            raise ValueError(
                f"level {level.name!r} cannot be shuffled, for {why}: twins are for mlp, cnn and vgg. "
                "Train parents of their own instead."
            )


def _layer(level: Level) -> nn.Module:
    """The model's own layer, also where a BatchNorm was folded into a copy of it."""
    assert level.affine is not None
    return level.folds[0][1] if level.folds else level.affine


def _shuffle_outputs(level: Level, order: Tensor) -> None:
    norms = [norm for _, _, norm in level.folds]
    for module in (_layer(level), *norms):
        for tensor in module.state_dict().values():
            if tensor.dim():  # all but BatchNorm's counter run over the neurons
                tensor.copy_(tensor[order])


def _shuffle_inputs(level: Level, order: Tensor) -> None:
    weight = _layer(level).weight
    assert isinstance(weight, Tensor)
    blocks = weight.flatten(1).unflatten(1, (len(order), -1))  # inputs are channel-major
    weight.copy_(blocks[:, order].reshape(weight.shape))
