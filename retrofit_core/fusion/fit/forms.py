"""Solvers for each form of layer: first for all parent neurons, then for the targets.

Legend as in `moments`; W0 (p, m) the parents' own weights on the fused inputs.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from ...networks.levels import Activated, Affine, Form, Level, Lookup, Partwise, Tied
from ..grouping import Grouping
from ..moments import (
    Moments,
    Rows,
    Solution,
    approximation_error,
    cross_error,
    unavoidable_error,
)
from ..results import Fitted
from ..targets import Targets
from ..walk import Step
from .repair import repaired

#: Solves a level's least squares, given a function for W0.
LeastSquaresOf = Callable[[Step, Moments | Rows, Callable[[Step], Tensor]], Solution]


class LeastSquares:
    """Linear layers and convolutions: least squares in closed form."""

    def parents_weights(self, step: Step) -> Tensor:
        """W0 (p, m), then zeros (p, d) for the stream, which has no weights."""
        W0 = step.parents_weights()
        return torch.cat([W0, W0.new_zeros(len(W0), step.level.form.adds * step.level.width)], 1)

    def solve(self, least_squares: LeastSquaresOf, step: Step, sums: Moments | Rows) -> Solution:
        """Fit every parent neuron."""
        return least_squares(step, sums, self.parents_weights)

    def fit(self, step: Step, sums: Moments | Rows, solution: Solution, groups: Grouping, s: Tensor) -> Fitted:
        """Write the weights for the groups' targets into the level."""
        level, clock = step.level, step.walk.stopwatch
        missing = missing_targets(level, groups.targets(s))
        with clock.phase("solve"):
            V = solution.weights(missing.A)
            level.write(V)
        with clock.phase("report"):
            labels, missed = groups.labels, solution.missed(missing.A, V)
            untouched = approximation_error(sums, missing, torch.zeros_like(V)) if level.form.adds else float("nan")
            if groups.reading is not None:  # heads: compare each neuron with its reconstruction from the targets
                missing, V = Targets(missing.A @ groups.reading, s), V @ groups.reading
                labels, missed = torch.arange(len(s), device=s.device), None
            return Fitted(
                form_of(sums),
                approximation_error(sums, missing, V, missed),
                unavoidable_error(sums.minus(labels), s),
                solution.strength,
                cross_error(sums, s, labels, missing, V),
                untouched,
            )


class BehindFunction(LeastSquares):
    """A layer whose outputs pass through a function before they are added to a stream: first fitted to the outputs of the
    parents' layers, then to what is missing after the function."""

    def parents_weights(self, step: Step) -> Tensor:
        """W0, zeros for the stream, and W0 again for the parents' layers, (p, 2 m + d)."""
        W0 = super().parents_weights(step)
        return torch.cat([W0, W0[:, : sum(step.widths)]], 1)

    def fit(self, step: Step, sums: Moments | Rows, solution: Solution, groups: Grouping, s: Tensor) -> Fitted:
        """Write the weights into the level."""
        level, targets = step.level, groups.targets(s)
        with step.walk.stopwatch.phase("solve"):
            first = torch.cat([targets.A.new_zeros(len(s) + level.width, level.width), targets.A])
            V, missed, lacking = repaired(step, sums, solution.weights(first), targets.A, solution.strength)
            level.write(V)
        return Fitted(
            form_of(sums),
            (targets.totals @ missed).item(),
            ridge=solution.strength,
            missing_error=(targets.totals @ lacking).item(),
        )


class Tables(LeastSquares):
    """Embeddings have a row for each token, so the groups' means of the parents' rows are the targets of every token, whether
    it occurs in the fusion data or not. A layer tied to a table shares these means; its bias gets means likewise."""

    def solve(self, least_squares: LeastSquaresOf, step: Step, sums: Moments | Rows) -> Solution:
        """Nothing is solved."""
        form = step.level.form
        assert isinstance(form, (Lookup, Tied))
        parents = [parent.form.weights() for parent in step.parents if isinstance(parent.form, (Lookup, Tied))]
        tables = torch.cat(parents, 1).split(form.sizes)
        return Solution(sums.zz, 0.0, lambda A: torch.cat([table @ A for table in tables]))

    def fit(self, step: Step, sums: Moments | Rows, solution: Solution, groups: Grouping, s: Tensor) -> Fitted:
        """Write the means into the tables. The error is that of rounding, plus the stream's own error for rows that are added
        to a stream."""
        level, targets = step.level, groups.targets(s)
        assert isinstance(level.form, (Lookup, Tied))
        with step.walk.stopwatch.phase("solve"):
            level.form.write(solution.weights(targets.A))
        error = torch.zeros_like(targets.totals)
        for fitted, z in step.fitted():
            error += (fitted.double() - z.double() @ targets.A).square().sum(0)
        missed = (targets.totals @ error).item()
        return Fitted("lookup", missed, float("nan") if level.form.adds else 0.0, 0.0)


SOLVERS: dict[type[Form], LeastSquares] = {
    Affine: LeastSquares(),
    Partwise: LeastSquares(),
    Activated: BehindFunction(),
    Lookup: Tables(),
    Tied: Tables(),
}


def form_of(sums: Moments | Rows) -> str:
    """The form of these sums."""
    return "dual" if isinstance(sums, Rows) else "primal"


def missing_targets(level: Level, targets: Targets) -> Targets:
    """Targets of the level's layers, as weights of the parents' neurons and, if the layers add to a stream h, of its neurons,
    which follow the parents': z A - h."""
    stream = -torch.eye(level.width, dtype=targets.A.dtype, device=targets.A.device)[: level.form.adds * level.width]
    return replace(targets, A=torch.cat([targets.A, stream]))
