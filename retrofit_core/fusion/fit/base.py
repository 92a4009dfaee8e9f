"""What a fit is: how a level's weights are brought to its targets."""

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
    """Refuse, before any work, levels onto whose inputs the parents' weights cannot be mapped, whatever the groups will be.

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
        if step.index:  # not the values there, which a target's weights may make zero
            boundary = each(boundary, lambda z: torch.randn(z.shape, generator=generator).to(z))
        reads = step.reads(boundary)
        if reads is None or not step.level.form.parts:
            mapped_weights(step.level, step.parents, reads)


@dataclass(frozen=True)
class Fit(Value):
    """Base of the fits. A new one is a class with `fit`, and one line in FITS; its fields are its options."""

    needs_affine: ClassVar[bool] = False
    """Whether every level must be affine in its weights"""
    needs_inputs: ClassVar[bool] = False
    """Whether it works on sums over the fused network's inputs, and not on their outputs alone"""
    least_samples: ClassVar[int] = 2
    levels: ClassVar[str] = "preactivations"
    """Where levels end by default; see `partition`"""

    @property
    def epochs_range(self) -> tuple[int, int]:
        """Fewest and most epochs that each level is trained for; (0, 0): it is solved. A fit that trains has the fields
        batch_size and validation too, as in `Gradient`."""
        return 0, 0

    def check(self, levels: Levels, example: Tensor) -> None:
        """Refuse, before any work, levels that it cannot fit.

        Args:
            example: (B, ...) a few inputs, on the device.
        Raises:
            ValueError: names the level, the reason and the way out.
        """

    def products(self, weights: torch.dtype, device: torch.device) -> torch.dtype:
        """Precision of the products whose sums it works on, for networks with such weights."""
        return weights

    def solve(self, step: Step, sums: Moments | Rows) -> Solution:
        """What the level's neurons are grouped by, and everything that can be computed before they are: by default nothing, and
        they are grouped by their raw outputs."""
        m = sum(step.widths)
        return Solution(sums.zz[:m, :m])

    def fit(self, step: Step, sums: Moments | Rows, solution: Solution, groups: Grouping, s: Tensor) -> Fitted:
        """Write the weights into the level that bring it to the targets `groups.targets(s)`.

        Args:
            solution: what `solve` gave.
            s: (m,) scores.
        """
        raise NotImplementedError
