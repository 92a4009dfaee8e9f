"""The base class of fits of a level's weights to its targets."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ...system.settings import Value
from ..grouping import Grouping
from ..joint_spaces import Levels
from ..moments import Moments, Rows, Solution
from ..results import Fitted
from ..walk import Step


@dataclass(frozen=True)
class Fit(Value):
    """Base class of fits. A new one needs a method `fit` and one line in FITS; its fields are its options."""

    needs_inputs: ClassVar[bool] = False
    """Whether it needs sums over the fused network's inputs, not only over outputs; then every level must be affine"""
    least_samples: ClassVar[int] = 2
    levels: ClassVar[str] = "preactivations"
    """Where levels end by default; see `partition`"""

    @property
    def epochs_range(self) -> tuple[int, int]:
        """Minimum and maximum epochs per level; (0, 0) for a closed form. A fit that trains also has the fields batch_size and
        validation, as in `Gradient`."""
        return 0, 0

    def check(self, levels: Levels, example: Tensor) -> None:
        """Check early that it can fit all levels.

        Args:
            example: (B, ...) a few samples.
        Raises:
            ValueError: names the level, the reason and a solution.
        """

    def products(self, weights: torch.dtype, device: torch.device) -> torch.dtype:
        """Precision of the products in its sums, for networks with weights of this precision."""
        return weights

    def solve(self, step: Step, sums: Moments | Rows) -> Solution:
        """Compute the Gram matrix for grouping, and whatever does not depend on the groups. By default, only the Gram matrix of
        the raw outputs."""
        m = sum(step.widths)
        return Solution(sums.zz[:m, :m])

    def fit(self, step: Step, sums: Moments | Rows, solution: Solution, groups: Grouping, s: Tensor) -> Fitted:
        """Fit the level's weights to the targets `groups.targets(s)` and write them.

        Args:
            solution: result of `solve`.
            s: (m,) scores.
        """
        raise NotImplementedError
