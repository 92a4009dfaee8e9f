"""Grouping of class heads, class c with class c (paper App. F); elsewhere a control."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ...system.refusals import Refusal
from .base import Grouper, Grouping, Widths, grouped_cost


@dataclass(frozen=True)
class SameIndex(Grouper):
    """Puts neuron k of every parent into group k."""

    equal_widths: ClassVar[bool] = True

    def check(self, widths: Widths, width: int) -> None:
        """Check that widths are equal."""
        if set(widths) != {width}:
            raise Refusal(
                f"same_index needs equal widths; found widths {widths} and fused width {width}. Use grouping='kmeans'.",
                ("grouping", "kmeans"),
            )

    def __call__(
        self, gram: Tensor, scores: Tensor, widths: Widths, width: int, *, generator: torch.Generator | None = None
    ) -> Grouping:
        """Put neuron k of every parent into group k; see `Grouper`.

        Raises:
            ValueError: a parent's width differs from the fused width.
        """
        self.check(widths, width)
        labels = torch.arange(width, device=gram.device).repeat(len(widths))
        cost = grouped_cost(gram, scores, labels, width)
        return Grouping(labels, width, cost, {"algorithm": "identity"})
