"""Uniform importance: 1/n for each of a level's n neurons (paper sec. 2.2)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ...system.monitor import Monitor
from .base import Importance, Neurons, Scores


@dataclass(frozen=True, eq=False)
class Uniform(Importance):
    """Equal importance of all neurons; needs no data."""

    needs_data: ClassVar[bool] = False
    needs_labels: ClassVar[bool] = False
    widths_only: ClassVar[bool] = True

    def scores(self, neurons: Neurons, x: Tensor, y: Tensor | None, *, monitor: Monitor) -> Scores:
        """1/width for each neuron, (width,) each."""
        return Scores([torch.full((place.width,), 1 / place.width, dtype=torch.float64) for place in neurons])
