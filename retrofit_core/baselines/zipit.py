"""ZipIt!: similar neurons merged, within one parent or across parents (Stoica et al. 2024).

Legend: m neurons of all parents side by side, d fused ones; labels (m,) give each one's fused neuron. M (d, m) averages the
members of each fused neuron, U (m, d) passes its value back to them: M U is the identity.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ..fusion.eligibility import output_shape
from ..fusion.results import FusionResult
from ..fusion.task import Takes, Task
from ..networks.composites import PartialZip
from ..networks.levels import partition
from ..networks.levels.cuts import choose_cuts
from ..networks.levels.folds import folded
from ..networks.levels.tracing import trace
from ..networks.outputs import check_class_scores
from ..networks.symmetry import Group
from ..networks.symmetry.rules import Rules
from ..system.device import of
from ..system.settings import FRACTION, Range, setting
from .aligned import Aligning, AlignmentPlan, Averager, averaging_maps, check_enough, plan_alignment, shares_of

Combine = Literal["softmax", "logits"]
#: Similarities that differ by less are equal, so that rounding decides nothing.
STEP = 1e-9
#: Shares of the levels before the head at which a partial zip may end.
STOPS = Range(0, 1, without_low=True)


def _why_no_stop(value: object) -> str:
    """What a stop may be, if `value` is invalid; see `Setting.check`."""
    if value is None or isinstance(value, str) or STOPS.holds(value):
        return ""
    return f"the name of a level, {STOPS} (a share of the levels before the head), or none"


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
    stop_at: str | float | None = setting(
        None,
        "name of the last level to zip, or a share of the levels before the head. After it, each parent continues "
        "separately (partial zip), in a network that runs the common part once. None: zip everything",
        check=_why_no_stop,
        title="Zip up to level",
    )
    combine: Combine = setting(
        "softmax",
        "how to combine the heads of a partial zip: mean of their softmax, or of their logits",
        title="Combine separate heads by",
    )
    reset_norms: bool = setting(
        True, "estimate new running statistics for BatchNorm", title="Renew BatchNorm statistics"
    )

    def plan(self, task: Task) -> AlignmentPlan:
        """Find the neuron groups and the cut, and refuse what cannot be zipped; see `Algorithm`."""
        plan = plan_alignment(task, "ZipIt!", leaves=self.leaves)
        check_enough(plan)
        if self.stop_at is not None:
            _cut(plan, self.stop_at)
            if self.combine == "softmax":
                shape = output_shape(task.parents[0], task.inputs, "parent 0")
                check_class_scores(
                    shape, "a partial zip with combine='softmax'", "Use combine='logits'.", ("combine", "logits")
                )
        return plan

    @torch.no_grad()
    def run(self, plan: AlignmentPlan) -> FusionResult:
        """Zip, average, and correct the statistics on request."""
        aligning = plan.scored()
        sums = aligning.sums(after=True)
        cut = None if self.stop_at is None else _cut(plan, self.stop_at)
        zipped = [index for index, group in enumerate(plan.targets) if cut is None or _is_made_before(group, cut)]

        def find(index: int) -> tuple[Tensor, dict[str, Any]]:
            group, widths = aligning.targets[index], aligning.widths(index)
            if group.fixed:
                return torch.arange(group.width).repeat(len(widths)), {"algorithm": "zip"}
            origins = torch.repeat_interleave(torch.arange(len(widths)), torch.tensor(widths))
            similarity = sums[index].correlation().cpu()
            labels, merges = zip_neurons(similarity, origins, group.width, a=self.a, b=self.b)
            return labels, {"algorithm": "zip", **merges}

        reports = aligning.assign(sums, find, zipped)
        maps = averaging_maps(reports)
        aligning.combine(maps)
        modules = None if cut is None else cut.modules
        repaired = aligning.corrected(
            shares_of(maps), repair=self.repair, reset_norms=self.reset_norms, modules=modules
        )
        result = aligning.result("ZipIt!", self, reports, repaired=repaired)
        if cut is None:
            return result
        labels = {level.name: level.labels for level in reports}
        return replace(result, model=_with_tails(aligning, labels, cut, self.combine))


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
    first = {int(root): None for root in zipper.roots}  # in order of first members
    numbers = {root: number for number, root in enumerate(first)}
    labels = torch.tensor([numbers[int(root)] for root in zipper.roots])
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


# --- partial zip ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """The end of the last zipped level."""

    count: int
    """Number of zipped levels"""
    tensors: set[str]
    modules: set[str]


def _cut(plan: AlignmentPlan, stop_at: str | float) -> Cut:
    levels = partition(plan.fused, plan.inputs[:2].to(of(plan.fused)), leaves=plan.leaves)
    names = [level.name for level in levels[:-1]]
    if not names:
        raise ValueError(
            "this network is one level, its head, so there is nothing to zip before it. Leave stop_at out."
        )
    if isinstance(stop_at, str):
        if stop_at not in names:
            raise ValueError(f"stop_at={stop_at!r} is not a level before the head. Known: {', '.join(names)}.")
        count = names.index(stop_at) + 1
    else:
        count = max(1, round(stop_at * len(names)))
    zipped = {name for level in levels[:count] for name in level.state()}
    folded = {id(module) for level in levels[:count] for fold in level.folds for module in fold.modules}
    modules = {name for name, module in plan.fused.named_modules() if id(module) in folded}
    return Cut(count, zipped, modules | {name.rpartition(".")[0] for name in zipped})


def _is_made_before(group: Group, cut: Cut) -> bool:
    """Whether neurons are made before a cut."""
    return any(part.name in cut.tensors for part in group.parts if part.kind != "in")


def _with_tails(plan: Aligning, labels: Mapping[str, Tensor], cut: Cut, combine: str) -> PartialZip:
    example, leaves = plan.inputs[:2].to(of(plan.fused)), plan.leaves
    fused = neurons_at(plan.fused, example, cut.count, plan.targets, leaves)
    where = {neuron: channel for channel, neuron in enumerate(_counted(fused))}
    entries = []
    for k, (parent, groups) in enumerate(zip(plan.parents, plan.groups, strict=True)):
        entry = []
        for group, neuron, number in _counted(neurons_at(parent, example, cut.count, groups, leaves)):
            start = sum(plan.widths(group)[:k])
            entry.append(where[group, int(labels[plan.targets[group].name][start + neuron]), number])
        entries.append(torch.tensor(entry, device=example.device))
    parents = [copy.deepcopy(parent) for parent in plan.parents]
    return PartialZip(
        plan.fused, parents, entries, levels=cut.count, combine=combine, example=example, leaves=leaves
    ).eval()


def _counted(neurons: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Number the channels of each neuron; a flattened convolution has several."""
    seen: dict[tuple[int, int], int] = {}
    counted = []
    for neuron in neurons:
        seen[neuron] = seen.get(neuron, -1) + 1
        counted.append((*neuron, seen[neuron]))
    return counted


def neurons_at(
    model: nn.Module, example: Tensor, count: int, groups: Sequence[Group], leaves: Sequence[str]
) -> list[tuple[int, int]]:
    """(group, neuron) of each channel at the end of the first `count` levels."""
    traced = trace(model.eval(), leaves, example)
    without_norms, _ = folded(traced)
    cut = choose_cuts(without_norms.graph, "preactivations", model)[count - 1].name
    rules = Rules(traced.of_one())
    node = next(node for node in rules.values if node.name == cut)
    ids = rules.ids.of(rules.values[node])
    axis = next(axis for axis in range(ids.ndim) if not torch.equal(ids.narrow(axis, 0, 1).expand_as(ids), ids))
    numbers = ids.movedim(axis, 0).flatten(1)[:, 0].tolist()
    at: dict[int, tuple[int, int]] = {}
    for index, group in enumerate(groups):
        part = next(part for part in group.parts if (part.name, part.axis) in rules.axes)
        ids_of_group = rules.ids.of(rules.axes[part.name, part.axis][0])[part.index[:, 0]]
        at.update({number: (index, neuron) for neuron, number in enumerate(ids_of_group.tolist())})
    return [at[number] for number in numbers]
