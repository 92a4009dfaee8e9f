"""Uniform importance: 1/n for each of a level's n neurons (paper sec. 2.2)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..levels import Level
from .base import Scores


def uniform(levels: Sequence[Level], x: Tensor | None = None, y: Tensor | None = None, **_: Any) -> Scores:
    """The same score for every neuron; needs no data."""
    return Scores([torch.full((level.width,), 1 / level.width, dtype=torch.float64) for level in levels])
