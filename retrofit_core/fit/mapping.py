"""The parents' own weights on the fused network's inputs: W0 of the ridge towards the parents (docs/method.md)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..levels import Level


@dataclass(frozen=True, eq=False)
class Groups:
    """How the parents' neurons of a level were grouped."""

    labels: Tensor
    """(m,) group of each neuron"""
    widths: Sequence[int]
    """Neurons of each parent"""
    width: int
    """Number of groups"""
    axis: int = 1
    """Neuron axis of the boundary tensor there"""


def mapped_weights(fused: Level, parents: Sequence[Level], previous: Groups | None) -> Tensor:
    """W0 (p, m): each parent neuron's weights, its inputs replaced by the fused neurons that stand for them.

    Weights of several neurons in one group sum onto it; fused neurons without a member of that parent get 0;
    convolutions map per kernel position; the bias is the parent's.

    Args:
        previous: the groups of the level before, None at the first level (the parents' weights stay as they are).
    Raises:
        ValueError: a parent's inputs do not correspond to the fused ones position by position.
    """
    assert fused.affine is not None
    bias = fused.affine.bias is not None
    p = fused.affine.weight[0].numel()
    columns = []
    labels = previous.labels.split(list(previous.widths)) if previous is not None else [None] * len(parents)
    for k, (parent, groups) in enumerate(zip(parents, labels, strict=True)):
        assert parent.affine is not None
        weights = parent.affine.weight.detach().flatten(1).T.double()  # (inputs of the parent, its neurons)
        if groups is None or previous is None:
            mapped = weights
        else:
            positions = len(weights) // len(groups)  # kernel or spatial positions per channel; inputs are channel-major
            mapped = weights.new_zeros(previous.width, positions, weights.shape[1])
            mapped.index_add_(0, groups, weights.reshape(len(groups), positions, -1))
            mapped = mapped.flatten(0, 1)
        if mapped.shape[0] != p:
            raise ValueError(
                f"level {fused.name!r}: parent {k} has {len(weights)} inputs per neuron where the fused level has {p}; "
                "their weights cannot be mapped. Use toward='zero' and refit=True."
            )
        if bias:
            parent_bias = parent.affine.bias
            row = (
                torch.zeros(1, mapped.shape[1]).to(mapped)
                if parent_bias is None
                else parent_bias.detach().double()[None]
            )
            mapped = torch.cat([mapped, row])
        columns.append(mapped)
    return torch.cat(columns, 1)


@torch.no_grad()
def is_channel_major(level: Level, boundary: Tensor, axis: int) -> bool:
    """Whether the level's input columns run over the neurons of the boundary in order, each with equally many columns.

    Decided by asking: permute the boundary's neurons and see whether blocks of columns are permuted alike, up to rounding: a
    mean over positions adds in another order where the tensor lies otherwise in memory.

    Args:
        boundary: (B, ...) the tensor before the level.
        axis: of its neurons, as the level before knows it.
    """
    width = boundary.shape[axis]
    order = torch.arange(width - 1, -1, -1, device=boundary.device)
    plain, turned = level.inputs(boundary[:1]), level.inputs(boundary[:1].index_select(axis, order))
    if plain.shape[1] % width:
        return False
    blocks = plain.reshape(len(plain), width, -1)[:, order].reshape(plain.shape)
    rounding = 100 * torch.finfo(plain.dtype).eps * plain.abs().max().item()
    return torch.allclose(blocks, turned, rtol=0, atol=rounding)
