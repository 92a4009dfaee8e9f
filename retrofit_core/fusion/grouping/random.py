"""Random groups: what a fit reaches without any information about the neurons."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .base import Grouper, Grouping, Widths, check_enough, grouped_cost


@dataclass(frozen=True)
class Random(Grouper):
    """Groups independent of neurons and scores: the control of all groupings.

    Each group gets one neuron; the remaining ones fall into any group with equal probability.
    """

    is_random: ClassVar[bool] = True

    def check(self, widths: Widths, width: int) -> None:
        """Check that there are enough neurons."""
        check_enough(widths, width)

    def __call__(
        self, gram: Tensor, scores: Tensor, widths: Widths, width: int, *, generator: torch.Generator | None = None
    ) -> Grouping:
        """Draw the groups; see `Grouper`.

        Raises:
            ValueError: more groups than neurons.
        """
        self.check(widths, width)
        m = sum(widths)
        drawn = torch.cat([torch.arange(width), torch.randint(width, (m - width,), generator=generator)])
        labels = drawn[torch.randperm(m, generator=generator)].to(gram.device)
        return Grouping(labels, width, grouped_cost(gram, scores, labels, width), {"algorithm": "random"})
