"""Embeddings and what is tied to them: the groups' means of the parents' rows.

A table has a row for each token, so the means are the targets of every token, whether it occurs in the fusion data or not. A
layer tied to a table shares these means; its bias gets means likewise.
"""

import torch

from ...networks.levels import Lookup, Tied
from ..moments import Moments, Rows, Solution
from ..results import Fitted
from ..targets import Targets
from ..walk import Step


def solve_tables(step: Step, sums: Moments | Rows) -> Solution:
    """The parents' rows; nothing is solved."""
    form = step.level.form
    assert isinstance(form, (Lookup, Tied))
    parents = [parent.form.weights() for parent in step.parents if isinstance(parent.form, (Lookup, Tied))]
    tables = torch.cat(parents, 1).split(form.sizes)
    return Solution(sums.zz, 0.0, lambda A: torch.cat([table @ A if len(table) else A[:0] for table in tables]))


def fit_tables(step: Step, solution: Solution, targets: Targets) -> Fitted:
    """Write the means into the tables. The error is that of rounding, plus the stream's own error for rows that are added to a
    stream."""
    form = step.level.form
    assert isinstance(form, (Lookup, Tied))
    with step.walk.stopwatch.phase("solve"):
        form.write(solution.weights(targets.A))
    error = torch.zeros_like(targets.totals)
    for fitted, z in step.fitted():
        error += (fitted.double() - z.double() @ targets.A).square().sum(0)
    missed = (targets.totals @ error).item()
    return Fitted("lookup", missed, float("nan") if form.adds else 0.0, 0.0)
