"""ZipIt!: similar neurons merged, within one parent or across parents (Stoica et al. 2024).

Legend: m neurons of all parents side by side, d fused ones; labels (m,) give each one's fused neuron. M (d, m) averages the
members of each fused neuron, U (m, d) passes its value back to them: M U is the identity.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..fusion.results import FusionResult
from ..fusion.task import Takes
from ..system.settings import FRACTION, setting
from .aligned import AlignmentPlan, Averager, averaging_maps
from .watch import correlation

#: Similarities that differ by less are equal, so that rounding decides nothing.
STEP = 1e-9


@dataclass(frozen=True)
class ZipIt(Averager):
    """Zips the parents' neurons, group by group, by the correlations of their activations.

    Fused weights are the sum over parents of M W U; heads are averaged. The merging is greedy: the two most similar columns
    become one, whose similarity to each other column is a times the smaller of the two, until d remain. Nothing is random.
    Among equally similar pairs, `_preference` decides. Constant neurons (silent ones) have no correlation; those of
    different parents merge before two columns that already hold neurons of every parent, so that copies stay themselves.

    Differences from the authors' code: exact division by the number of members (theirs adds 1e-5); a column with neurons
    of several parents counts for each of them, so that b = 0 means one neuron of each parent (theirs forgets all but
    one, and allows one merge before checking the budget); if a budget allows no pair it is ignored, and the report says
    how often; any widths; neurons are always compared after their activation function, in residual streams at all sums;
    BatchNorm statistics come from the fusion data.
    """

    takes: ClassVar[Takes] = Takes(target=True)
    title: ClassVar[str] = "ZipIt!"

    repair: bool = setting(
        False,
        "correct the statistics of the fused network's layers (REPAIR); only without BatchNorm",
        title="Correct statistics (REPAIR)",
    )
    a: float = setting(
        0.3,
        "factor for the similarity of merged columns (0: only pairs)",
        FRACTION,
        title="Similarity after a merge",
    )
    b: float = setting(
        0.125,
        "share of a parent's merges that may be between its own neurons",
        FRACTION,
        title="Merges within one network",
    )
    reset_norms: bool = setting(
        True, "estimate new running statistics for BatchNorm", title="Renew BatchNorm statistics"
    )

    @torch.no_grad()
    def run(self, plan: AlignmentPlan) -> FusionResult:
        """Zip, average, and correct the statistics on request."""
        plan = plan.with_scores()
        sums = plan.sums(after=True)

        def find(index: int) -> tuple[Tensor, dict[str, Any]]:
            group, widths = plan.targets[index], plan.widths(index)
            if group.fixed:
                return torch.arange(group.width).repeat(len(widths)), {"algorithm": "zip"}
            origins = torch.repeat_interleave(torch.arange(len(widths)), torch.tensor(widths))
            similarity = correlation(sums[index]).cpu()
            labels, merges = zip_neurons(similarity, origins, group.width, a=self.a, b=self.b)
            return labels, {"algorithm": "zip", **merges}

        reports = plan.assign(sums, find)
        maps = averaging_maps(reports)
        plan.combine(maps)
        return plan.finish(self, reports, maps, reset_norms=self.reset_norms)


# --- which neurons merge --------------------------------------------------------------------------------------------


def zip_neurons(
    similarity: Tensor, origins: Tensor, width: int, *, a: float = 0.3, b: float = 0.125
) -> tuple[Tensor, dict[str, Any]]:
    """Greedily merge the most similar columns.

    Args:
        similarity: (m, m), symmetric, up to 1; differences below STEP do not count. Its diagonal is 0 for constant neurons.
        origins: (m,) parent of each neuron.
        width: d, the number of columns to merge down to.
    Returns:
        (m,) labels, numbered by the first member of each fused neuron; and facts: "within" (merges inside each parent),
        "forced" (merges that no budget allowed).
    """
    zipper = _Zipper(similarity, origins, width, b)
    while zipper.columns > width:
        zipper.merge(a)
    labels = torch.from_numpy(np.unique(zipper.roots, return_inverse=True)[1])  # a root is a column's first member
    return labels, {"within": zipper.within.tolist(), "forced": zipper.forced}


def _preference(origins: np.ndarray, constant: np.ndarray) -> np.ndarray:
    """(m, m) numbers from 0 to 1/2: higher for different parents, then for two constant neurons, then for near numbers."""
    places = np.concatenate([np.arange(count) for count in np.bincount(origins)])
    distances = np.abs(np.subtract.outer(places, places))
    across = origins[:, None] != origins
    alike = constant[:, None] & constant
    return 0.25 * across + 0.125 * alike + 0.125 * (1 - distances / len(places))


class _Zipper:
    """The remaining columns, their similarities, and each row's current best partner."""

    def __init__(self, similarity: Tensor, origins: Tensor, width: int, b: float) -> None:
        m, n = len(similarity), int(origins.max()) + 1
        self.constant = similarity.diagonal().numpy() == 0  # whether a column has only constant neurons
        preference = _preference(origins.numpy(), self.constant)
        self.values = STEP * ((similarity.double() / STEP).round().numpy() + preference)
        np.fill_diagonal(self.values, -np.inf)
        self.alive = np.ones(m, bool)
        self.roots = np.arange(m)
        self.columns = m
        self.holds = np.zeros((m, n), bool)  # whether a column has neurons of a parent
        self.holds[np.arange(m), origins.numpy()] = True
        self.within, self.forced = np.zeros(n, int), 0
        self.budget = np.full(n, int((m - width) // n * b + 1e-4))
        self.allowed = np.ones((m, m), bool)
        self.closed = np.zeros(n, bool)
        self.best = np.zeros(m, int)
        self.top = np.full(m, -np.inf)
        self._close()

    def merge(self, a: float) -> None:
        """Merge the best pair that the budgets allow, or the best of all if they allow none."""
        i = int(self.top.argmax())
        if np.isfinite(self.top[i]):
            j = int(self.best[i])
            if self.holds[[i, j]].all():
                i, j = self._best_constants() or (i, j)
        else:
            i, j = self._best_of_all()
            self.forced += 1
        i, j = min(i, j), max(i, j)
        shared = self.holds[i] & self.holds[j]
        self.within += shared
        self.budget -= shared
        joined = np.minimum(self.values[i], self.values[j])
        joined = np.where(np.isfinite(joined), joined * a if a > 0 else -np.inf, joined)
        self.values[i], self.values[:, i] = joined, joined
        self.alive[j], self.columns = False, self.columns - 1
        self.values[j], self.values[:, j] = -np.inf, -np.inf
        self.values[i, i], self.top[j] = -np.inf, -np.inf
        self.holds[i] |= self.holds[j]
        self.constant[i] &= self.constant[j]
        self.roots[self.roots == j] = i
        self._forbid(i)
        if not self._close():
            self._refresh(i, j)

    def _best_constants(self) -> tuple[int, int] | None:
        """The best pair of constant columns that share no parent; None if there is none."""
        rows = np.flatnonzero(self.alive & self.constant)
        apart = ~(self.holds[rows] @ self.holds[rows].T)
        if not apart.any():
            return None
        values = np.where(apart, self.values[np.ix_(rows, rows)], -np.inf)
        i, j = divmod(int(values.argmax()), len(rows))
        return int(rows[i]), int(rows[j])

    def _best_of_all(self) -> tuple[int, int]:
        """The best pair regardless of budgets; pairs closed by a = 0 count as the least similar."""
        values = np.where(np.isfinite(self.values), self.values, -1e9)
        values[~self.alive] = -np.inf
        values[:, ~self.alive] = -np.inf
        np.fill_diagonal(values, -np.inf)
        i, j = divmod(int(values.argmax()), len(values))
        return i, j

    def _forbid(self, i: int) -> None:
        """Forbid merging a column with others of the same parent once that parent's budget is spent."""
        closed = self.holds[i] & self.closed
        self.allowed[i] = ~(self.holds[:, closed].any(1))
        self.allowed[:, i] = self.allowed[i]

    def _close(self) -> bool:
        """Close parents whose budget is spent; returns whether any was."""
        spent = (self.budget <= 0) & ~self.closed
        for parent in np.flatnonzero(spent):
            inside = np.flatnonzero(self.holds[:, parent])
            self.allowed[np.ix_(inside, inside)] = False
            self.closed[parent] = True
        if spent.any() or not np.isfinite(self.top).any():
            self._search(np.flatnonzero(self.alive))
            return True
        return False

    def _refresh(self, i: int, j: int) -> None:
        """Update best partners after merging j into i: search again where one was the best, else only compare with i."""
        lost = self.alive & ((self.best == i) | (self.best == j))
        lost[i] = True
        column = np.where(self.allowed[:, i], self.values[:, i], -np.inf)
        better = self.alive & ~lost & ((column > self.top) | ((column == self.top) & (i < self.best)))
        self.top[better], self.best[better] = column[better], i
        self._search(np.flatnonzero(lost))

    def _search(self, rows: np.ndarray) -> None:
        values = np.where(self.allowed[rows], self.values[rows], -np.inf)
        self.best[rows] = values.argmax(1)
        self.top[rows] = values[np.arange(len(rows)), self.best[rows]]
