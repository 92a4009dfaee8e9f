"""The base class of fits of a level's weights to its targets."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ...networks.levels import each
from ...system.runtime import Runtime
from ...system.settings import Value
from ..grouping import Grouping
from ..joint_spaces import Levels
from ..mapping import Groups, mapped_weights
from ..moments import Moments, Rows, Solution
from ..results import Fitted
from ..walk import Step, Walk


@torch.no_grad()
def check_mapped(levels: Levels, example: Tensor) -> None:
    """Check before any work that the parents' weights can be mapped to every level's inputs, whatever the groups.

    Args:
        example: (B, ...) a few inputs, on the device.
    Raises:
        ValueError: see `Step.parents_weights`.
    """
    walk, generator = Walk(levels, example, Runtime(device=example.device)), torch.Generator().manual_seed(0)
    for index, level in enumerate(levels.fused):
        labels = torch.cat([torch.arange(width) % level.width for width in levels.widths(index)])
        walk.reports.append(Groups(labels, levels.widths(index), level.width))  # type: ignore[arg-type]
    for step in walk:
        if step.level.affine is None:
            continue
        boundary = step.boundary
        if step.index:  # random values, because a target's weights may make the real ones zero
            boundary = each(boundary, lambda z: torch.randn(z.shape, generator=generator).to(z))
        reads = step.reads(boundary)
        if reads is None or not step.level.form.parts:
            mapped_weights(step.level, step.parents, reads)


@dataclass(frozen=True)
class Fit(Value):
    """Base class of fits. A new one needs a method `fit` and one line in FITS; its fields are its options."""

    needs_affine: ClassVar[bool] = False
    """Whether every level must be affine in its weights"""
    needs_inputs: ClassVar[bool] = False
    """Whether it needs sums over the fused network's inputs, not only over outputs"""
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
            example: (B, ...) a few inputs, on the device.
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
