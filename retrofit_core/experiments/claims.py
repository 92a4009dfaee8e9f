"""What the paper's numbers claim of methods, order and signs of differences, beside the same numbers of ours."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from ..runs.leaderboard import difference
from .paper import Value
from .results import Result
from .rows import BEST, PARENT, read_row, scored

#: The paper's own methods.
OURS = ("HF-Linear", "KF-Linear", "HF-Gradient", "KF-Gradient")
#: What each of them is compared with, besides the best parent.
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
#: Which score is compared with which, for one method.
SCORES = (("conductance", "uniform"), ("deeplift", "conductance"))
BEST_PARENT = "best parent"
#: An order of fewer methods says nothing.
LEAST_RANKED = 3

#: Row -> seed -> the result of its network.
ResultsByRow = Mapping[str, Mapping[int, Result]]


@dataclass(frozen=True)
class Gap:
    """How much more accurate one row is than another, in points."""

    points: float
    """Mean over the seeds that both have"""
    interval: tuple[float, float]
    """95 %, over test images; its ends are averaged over seeds too, which is on the safe side"""
    seeds: tuple[float, ...]
    """Points with each seed"""
    paired: bool
    """Whether the interval compares the networks image by image"""


@dataclass(frozen=True)
class Claim:
    """A difference between two rows of a column, in points of accuracy: the paper's and ours."""

    left: str
    right: str
    paper: float
    deviation: float | None
    """Of the paper's difference, as if both were independent; None where it prints none"""
    ours: float | None = None
    interval: tuple[float, float] | None = None
    """95 %, over test images"""
    paired: bool = True
    """Whether the interval compares the networks image by image"""
    rows: tuple[str, str] = ("", "")
    """The rows that were compared, where left and right are the best of several"""

    @property
    def verdict(self) -> str:
        """Whether ours has the paper's sign; undecided where its interval contains 0."""
        if self.ours is None or self.interval is None:
            return "not measured"
        if self.paper == 0:
            return "no claim"
        if self.interval[0] <= 0 <= self.interval[1]:
            return "undecided"
        return "agreed" if (self.ours > 0) == (self.paper > 0) else "not agreed"


VERDICTS = ("agreed", "not agreed", "undecided", "no claim", "not measured")


def rank_correlation(paper: Mapping[str, float], ours: Mapping[str, float]) -> tuple[int, float | None]:
    """How many methods both have, and Spearman's correlation of their orders; None where there is no order to compare.

    Parents are no methods. A "best" of rows that are there themselves does not count again.
    """
    both = [row for row in paper if row in ours and not row.startswith(PARENT)]
    rows = [row for row in both if not (row.endswith(f", {BEST}") and set(scored((row,))) & set(both))]
    pairs = [(paper[row], ours[row]) for row in rows]
    if len(rows) < LEAST_RANKED or any(len(set(values)) == 1 for values in zip(*pairs, strict=True)):
        return len(rows), None
    from scipy.stats import spearmanr

    return len(rows), float(np.asarray(spearmanr(pairs))[0])


def claims(paper: Mapping[str, Value], measured: ResultsByRow) -> list[Claim]:
    """The differences that matter in a column: the paper's methods against parents and baselines, score against score.

    Where there are several scores, both sides take their own best one.
    """
    written = []
    for left, right in _pairs(paper):
        first, second = (max((paper[row] for row in rows), key=lambda value: value.mean) for _, rows in (left, right))
        deviation = None
        if first.deviation is not None and second.deviation is not None:
            deviation = math.hypot(first.deviation, second.deviation)
        claim = Claim(left[0], right[0], round(first.mean - second.mean, 6), deviation)
        written.append(_with_ours(claim, _best(left[1], measured), _best(right[1], measured), measured))
    return written


def _pairs(rows: Iterable[str]) -> list[tuple[tuple[str, list[str]], tuple[str, list[str]]]]:
    """Two sides each: their name, and the paper's rows of which the best stands for them."""
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
    """Of the rows that are measured, the one with the highest mean accuracy."""
    known = [row for row in scored(tuple(rows)) if measured.get(row)]
    return max(known, key=lambda row: _mean(measured[row]), default=None)


def _mean(by_seed: Mapping[int, Result]) -> float:
    return float(np.mean([result.metrics["accuracy"] for result in by_seed.values()]))


def gap(left: str, right: str, measured: ResultsByRow) -> Gap | None:
    """How much more accurate the left row is than the right one; None where no seed of both is measured."""
    pairs = _same_seeds(left, right, measured)
    if not pairs:
        return None
    paired = all(_can_be_paired(*pair) for pair in pairs)
    compared = [_paired(*pair) if paired else _unpaired(*pair) for pair in pairs]
    points, low, high = (float(value) for value in np.mean(compared, axis=0))
    return Gap(points, (low, high), tuple(float(each) for each, _, _ in compared), paired)


def _with_ours(claim: Claim, left: str | None, right: str | None, measured: ResultsByRow) -> Claim:
    """The claim with the gap of two rows of ours."""
    ours = None if left is None or right is None else gap(left, right, measured)
    if ours is None or left is None or right is None:
        return claim
    return dataclasses.replace(claim, ours=ours.points, interval=ours.interval, paired=ours.paired, rows=(left, right))


def _same_seeds(left: str, right: str, measured: ResultsByRow) -> list[tuple[Result, Result]]:
    """What uses no random numbers was measured once, and stands beside every seed of the other."""
    first, second = measured.get(left, {}), measured.get(right, {})
    if not first or not second:
        return []
    if not read_row(left).is_random:
        first = dict.fromkeys(second, first[0])
    elif not read_row(right).is_random:
        second = dict.fromkeys(first, second[0])
    return [(first[seed], second[seed]) for seed in first if seed in second]


def _can_be_paired(left: Result, right: Result) -> bool:
    """Whether both kept which of the same test images they know."""
    return bool(left.correct and right.correct) and left.metrics["samples"] == right.metrics["samples"]


def _paired(left: Result, right: Result) -> tuple[float, float, float]:
    mean, (low, high) = difference(torch.from_numpy(left.knows()), torch.from_numpy(right.knows()))
    return mean, low, high


def _unpaired(left: Result, right: Result) -> tuple[float, float, float]:
    """As if both had been measured on images of their own: the normal approximation of two shares."""
    shares = [(result.metrics["accuracy"] / 100, result.metrics["samples"]) for result in (left, right)]
    mean = 100 * (shares[0][0] - shares[1][0])
    reach = 196 * math.sqrt(sum(share * (1 - share) / images for share, images in shares))
    return mean, mean - reach, mean + reach
