"""Class heads: class c with class c (paper App. F)."""

import torch
from torch import Tensor

from .base import Grouping, averaging_matrix


def same_index(
    gram: Tensor, scores: Tensor, widths: tuple[int, ...], width: int, *, generator: torch.Generator | None = None
) -> Grouping:
    """Group k holds neuron k of every parent.

    Raises:
        ValueError: a parent's width differs from the fused width.
    """
    if set(widths) != {width}:
        raise ValueError(f"same_index needs equal widths; found {widths} and fused width {width}.")
    labels = torch.arange(width, device=gram.device).repeat(len(widths))
    A = averaging_matrix(labels, scores, width)
    totals = scores.new_zeros(width).index_add_(0, labels, scores)
    cost = (scores @ gram.diagonal() - totals @ ((gram @ A) * A).sum(0)).clamp_min(0)
    return Grouping(labels, width, cost.item(), {"algorithm": "identity"})
