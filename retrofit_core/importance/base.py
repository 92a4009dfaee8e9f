"""What an importance score is: one number per neuron, level and parent."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..levels import Level

#: Added to every score, so that a class which a parent never saw keeps a vanishing weight, not none (docs/method.md).
EPSILON = 1e-8
#: Bytes of activations and gradients that one batch of samples may take.
BATCH_BYTES = 2**30


@dataclass(frozen=True)
class Scores:
    """Raw scores of one parent, with what the method tells about itself."""

    values: list[Tensor]
    """One (width,) tensor per level, not negative"""
    report: dict[str, Any] = field(default_factory=dict)
    """For attributions: `completeness_gap` per level, |sum of attributions - (f_y(x) - f_y(0))| relative to the latter"""


def samples_per_batch(levels: Sequence[Level], copies: int, bytes_per_number: int = 4) -> int:
    """Samples whose activations at all levels, `copies` times over, fit into BATCH_BYTES."""
    numbers = sum(level.width * level.positions for level in levels)
    return max(1, min(64, BATCH_BYTES // (bytes_per_number * copies * numbers)))


def absolute_sum(attribution: Tensor, axis: int) -> Tensor:
    """(width,) sum of |attribution| over samples and positions: the absolute value comes before any sum."""
    moved = attribution.movedim(axis, -1)
    return moved.abs().reshape(-1, moved.shape[-1]).double().sum(0)


def gaps(signed: Sequence[float], change: float) -> list[float]:
    """Relative completeness gap of each level: signed attributions should sum to f_y(x) - f_y(0)."""
    return [abs(total - change) / max(abs(change), 1e-12) for total in signed]


def chosen(outputs: Tensor, y: Tensor) -> Tensor:
    """f_y(x): each sample's logit of its own label."""
    return outputs.gather(1, y[:, None].to(torch.int64))[:, 0]
