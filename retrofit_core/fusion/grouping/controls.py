"""Groupings that do not look at the neurons: by number, as class heads always are, and at random."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ...system.refusals import Refusal
from .base import Grouper, Grouping, Widths, check_enough, grouped_cost


@dataclass(frozen=True)
class SameIndex(Grouper):
    """Puts neuron k of every parent into group k: class c with class c (paper App. F); elsewhere a control."""

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


@dataclass(frozen=True)
class Random(Grouper):
    """Groups independent of neurons and scores: the control of all groupings.

    Each group gets one neuron; the remaining ones fall into any group with equal probability.
    """

    is_random: ClassVar[bool] = True

    def __call__(
        self, gram: Tensor, scores: Tensor, widths: Widths, width: int, *, generator: torch.Generator | None = None
    ) -> Grouping:
        """Draw the groups; see `Grouper`.

        Raises:
            ValueError: more groups than neurons.
        """
        check_enough("random", widths, width)
        m = sum(widths)
        drawn = torch.cat([torch.arange(width), torch.randint(width, (m - width,), generator=generator)])
        labels = drawn[torch.randperm(m, generator=generator)].to(gram.device)
        return Grouping(labels, width, grouped_cost(gram, scores, labels, width), {"algorithm": "random"})
