"""Claims of the paper: the signs of differences between methods, compared with our numbers."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..catalogue import CATALOGUE, RETROFIT
from ..runs.answers import mean_and_interval
from .paper import Value
from .results import Result
from .rows import PARENT, read_row, rows_by_score

#: The paper's own methods.
OURS = tuple(line.name for line in CATALOGUE.values() if line.kind == RETROFIT)
#: Their opponents, besides the best parent.
OTHERS = (
    "Ensemble",
    "Average",
    "KD",
    "LP",
    "OTFusion",
    "Transformer-OTFusion",
    "Transformer-OTFusion-Weights",
    "Git-Re-Basin",
    "ZipIt",
)
#: Opponents that lose clearly almost everywhere in the paper, so that agreement on them says little.
EASY = ("Average", "KD", "OTFusion", "Transformer-OTFusion", "Transformer-OTFusion-Weights", "Git-Re-Basin", "ZipIt")
#: The best parent, the ensemble, LP, and other scores.
INFORMATIVE = "informative"
#: Pairs of scores that are compared, for each method.
SCORES = (("conductance", "uniform"), ("deeplift", "conductance"))
BEST_PARENT = "best parent"

#: Set of parents, and seed of their fusion.
Run = tuple[int, int]
#: Row -> run -> the result of its network.
ResultsByRow = Mapping[str, Mapping[Run, Result]]


@dataclass(frozen=True)
class Gap:
    """Difference between the accuracies of two rows, in points."""

    pairs: Mapping[Run, tuple[Result, Result]] = field(repr=False)
    """The results of both for each common run"""
    badge: str = ""
    """The scale of both rows, if not the column's"""

    @property
    def seeds(self) -> tuple[float, ...]:
        """Points for each seed of all parents."""
        return tuple(one.value - other.value for one, other in self.pairs.values())

    @cached_property
    def points(self) -> float:
        """Mean over common sets of parents, each averaged over common seeds."""
        return 100 * float(self._ahead().mean())

    @cached_property
    def interval(self) -> tuple[float, float]:
        """95 %, over test images and sets of parents, or fusion seeds if there is one set: see `mean_and_interval`. Two sets do
        not say how far sets differ (Student's t of one degree of freedom is 12.7): over test images, and wide enough for both
        sets."""
        _, (low, high) = mean_and_interval(self._ahead())
        points = [float(each) for each in _by_parents(dict(zip(self.pairs, map(np.array, self.seeds), strict=True)))]
        return (min(*points, low), max(*points, high)) if self._has_two_sets else (low, high)

    @property
    def _has_two_sets(self) -> bool:
        return len({parents for parents, _ in self.pairs}) == 2

    def _ahead(self) -> np.ndarray:
        """(seeds or sets of parents, images) difference in correctness; of two sets, their mean."""
        by_run = {run: one.knows().astype(float) - other.knows() for run, (one, other) in self.pairs.items()}
        ahead = np.stack(_by_parents(by_run))
        return ahead.mean(0, keepdims=True) if self._has_two_sets else ahead


@dataclass(frozen=True)
class Claim:
    """The paper's and our difference between two rows of a column, in points of accuracy."""

    left: str
    right: str
    paper: float
    deviation: float | None
    """Standard deviation of the paper's difference, as if both were independent; None if it prints none"""
    gap: Gap | None = None
    """Ours; None if it is not measured"""
    rows: tuple[str, str] = ("", "")
    """The compared rows; left and right may be the best of several"""
    badge: str = ""
    """The scale of our rows, if not the block's"""
    column: str = ""
    """Of the table, in a summary of several columns"""
    decides: bool = True
    """Whether the scale is informative about accuracy, as `smoke` is not"""

    @property
    def ours(self) -> float | None:
        """Our difference, in points."""
        return self.gap and self.gap.points

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 %, see `Gap`."""
        return self.gap and self.gap.interval

    @property
    def seeds(self) -> int:
        """Number of our fusions; the interval of a single one is over test images only."""
        return len(self.gap.pairs) if self.gap else 0

    @property
    def words(self) -> tuple[str, ...]:
        """The two sides, the paper's difference, ours, its 95 % interval, and the verdict."""
        deviation = "" if self.deviation is None else f" ± {self.deviation:.1f}"
        at = f" ({self.badge})" if self.badge else ""
        ours = "-" if self.ours is None else f"{self.ours:+.2f}{at}"
        interval = "-" if self.interval is None else "{:+.2f} to {:+.2f}".format(*self.interval)
        scores = [row.removeprefix(f"{name}, ") for name, row in zip((self.left, self.right), self.rows, strict=True)]
        sides = [
            name if score == row else f"{name} ({score})"
            for name, row, score in zip((self.left, self.right), self.rows, scores, strict=True)
        ]
        return " against ".join(sides), f"{self.paper:+.1f}{deviation}", ours, interval, self.verdict

    @property
    def group(self) -> str:
        """Whether the opponent is easy or informative."""
        return "easy" if self.right in EASY else INFORMATIVE

    @property
    def is_noise(self) -> bool:
        """Whether the paper's difference is within two of its standard deviations, so that it claims little."""
        return self.deviation is not None and abs(self.paper) <= 2 * self.deviation

    @property
    def verdict(self) -> str:
        """Whether our difference has the paper's sign; undecided if its interval contains 0, or at `smoke`."""
        if self.gap is None:
            return "not measured"
        if self.paper == 0:
            return "no claim"
        if not self.decides or self.gap.interval[0] <= 0 <= self.gap.interval[1]:
            return "undecided"
        return "agreed" if (self.gap.points > 0) == (self.paper > 0) else "contradicted"


#: Verdicts on measured claims, then all.
DECIDED = ("agreed", "undecided", "contradicted")
VERDICTS = (*DECIDED, "no claim", "not measured")


def claims(paper: Mapping[str, Value], measured: ResultsByRow) -> list[Claim]:
    """The relevant differences in a column: the paper's methods against parents and baselines, and score against score.

    If there are several scores, each side uses its best one.
    """
    written = []
    measured = {**measured, **_best_parents(measured)}
    for (left, ours), (right, others) in _pairs(paper):
        first, second = (max((paper[row] for row in rows), key=lambda value: value.mean) for rows in (ours, others))
        deviations = [value.deviation for value in (first, second) if value.deviation is not None]
        deviation = math.hypot(*deviations) if len(deviations) == 2 else None
        one, other = _best(ours, measured), _best(others, measured)
        found = None if one is None or other is None else gap(one, other, measured)
        rows = (one or "", other or "") if found else ("", "")
        written.append(Claim(left, right, round(first.mean - second.mean, 6), deviation, found, rows))
    return written


def _pairs(rows: Iterable[str]) -> list[tuple[tuple[str, list[str]], tuple[str, list[str]]]]:
    """Pairs of sides: each is a name and the paper's rows, of which the best one counts."""
    sides: dict[str, list[str]] = {}
    singles: dict[str, dict[str, str]] = {}
    for name in rows:
        row = read_row(name)
        if row.changes:
            continue
        sides.setdefault(BEST_PARENT if row.parent is not None else row.method, []).append(name)
        if name == f"{row.method}, {row.importance}":
            singles.setdefault(row.method, {})[row.importance] = name
    against = [
        ((ours, sides[ours]), (other, sides[other]))
        for ours in OURS
        for other in (BEST_PARENT, *OTHERS)
        if ours in sides and other in sides
    ]
    scores = [
        ((by_score[left], [by_score[left]]), (by_score[right], [by_score[right]]))
        for by_score in singles.values()
        for left, right in SCORES
        if left in by_score and right in by_score
    ]
    return against + scores


def _best(rows: list[str], measured: ResultsByRow) -> str | None:
    """The measured row with the highest accuracy, the mean over the sets of parents that all rows have, each averaged over seeds;
    of parents, the best of each set, if there are several sets."""
    if BEST_PARENT in measured and rows[0].startswith(PARENT):
        return BEST_PARENT
    by_set: dict[str, dict[int, list[float]]] = {}
    for row in rows_by_score(tuple(rows)):
        for (parents, _), each in measured.get(row, {}).items():
            by_set.setdefault(row, {}).setdefault(parents, []).append(each.value)
    sets = [set(of_set) for of_set in by_set.values()]
    common = set.intersection(*sets) or set.union(*sets) if sets else set()
    means = {
        row: np.mean([np.mean(of_set[parents]) for parents in common if parents in of_set])
        for row, of_set in by_set.items()
    }
    return max(means, key=means.__getitem__, default=None)


def _best_parents(measured: ResultsByRow) -> dict[str, dict[Run, Result]]:
    """The best parent of each set, if there are several sets."""
    best: dict[Run, Result] = {}
    for row, by_run in measured.items():
        if row.startswith(PARENT):
            for run, result in by_run.items():
                best[run] = max(best.get(run, result), result, key=lambda each: each.value)
    return {BEST_PARENT: best} if len(best) > 1 else {}


def gap(left: str, right: str, measured: ResultsByRow) -> Gap | None:
    """The left row's accuracy minus the right one's; None if they have no common measured run."""
    sides = [(row, measured.get(row, {})) for row in (left, right)]
    # A deterministic row has one result, which is compared with every seed of the other.
    runs = [run for row, by_run in sides if _is_random(row) for run in by_run] or list(sides[0][1])
    found = {run: [by_run.get(run if _is_random(row) else (run[0], 0)) for row, by_run in sides] for run in runs}
    pairs = {run: (one, other) for run, (one, other) in found.items() if one is not None and other is not None}
    return Gap(pairs) if pairs else None


def _by_parents(by_run: Mapping[Run, np.ndarray]) -> list[np.ndarray]:
    """One array per seed, or, for several sets of parents, per set: its mean over seeds, which share the parents."""
    of_parents: dict[int, list[np.ndarray]] = {}
    for (parents, _), value in by_run.items():
        of_parents.setdefault(parents, []).append(value)
    if len(of_parents) == 1:
        return list(by_run.values())
    return [np.mean(values, axis=0) for values in of_parents.values()]


def _is_random(row: str) -> bool:
    return row != BEST_PARENT and read_row(row).is_random
