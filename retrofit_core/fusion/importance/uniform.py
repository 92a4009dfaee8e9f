"""Uniform importance: 1/n for each of a level's n neurons (paper sec. 2.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ...networks.levels import Level
from ...system.monitor import Monitor
from .base import Importance, Scores


@dataclass(frozen=True, eq=False)
class Uniform(Importance):
    """Equal importance of all neurons; needs no data."""

    needs_data: ClassVar[bool] = False
    needs_labels: ClassVar[bool] = False
    widths_only: ClassVar[bool] = True

    def scores(
        self,
        levels: Sequence[Level],
        x: Tensor | None = None,
        y: Tensor | None = None,
        *,
        monitor: Monitor | None = None,
    ) -> Scores:
        """1/width for each neuron of each level, (width,) each."""
        return Scores([torch.full((level.width,), 1 / level.width, dtype=torch.float64) for level in levels])
