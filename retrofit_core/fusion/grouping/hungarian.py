"""One-to-one matching of two parents (paper sec. 4.2.1 a; Kuhn 1955)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...system.refusals import Refusal
from .assignment import assigned
from .base import Grouper, Grouping, Widths, pairwise_costs


@dataclass(frozen=True)
class Hungarian(Grouper):
    """Pairs each neuron of parent 0 with one of parent 1 at minimum total cost (Theorem 2a).

    Minimises the level's representation cost (squared, projected and weighted) over one-to-one matchings, by
    `scipy.optimize.linear_sum_assignment` on `pairwise_costs`. Group k holds parent 0's neuron k.
    """

    parents: ClassVar[tuple[int, int | None]] = (2, 2)
    equal_widths: ClassVar[bool] = True

    def check(self, widths: Widths, width: int) -> None:
        """Check that there are two parents of the fused width."""
        if len(widths) != 2 or set(widths) != {width}:
            raise Refusal(
                f"hungarian pairs exactly two parents of the fused width; found widths {widths} and fused width {width}. "
                "Use grouping='kmeans' (KF-Linear, KF-Gradient).",
                ("grouping", "kmeans"),
            )

    def __call__(
        self, gram: Tensor, scores: Tensor, widths: Widths, width: int, *, generator: torch.Generator | None = None
    ) -> Grouping:
        """Pair the neurons; see `Grouper`.

        Raises:
            ValueError: not two parents of the fused width.
        """
        self.check(widths, width)
        costs = pairwise_costs(gram, scores, width).cpu()
        left, right = assigned(costs)
        labels = torch.arange(2 * width)
        labels[width + right] = left
        report: dict[str, Any] = {"algorithm": "linear_sum_assignment"}
        return Grouping(labels.to(gram.device), width, costs.numpy()[left.numpy(), right.numpy()].sum().item(), report)
