"""Which level loses most according to the numbers: one rule for the headline and the level that opens."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .noise import Difference, Facts, difference
from .words import first_up, listing, number, percent, within

TOLD = 3  # most levels that lose, or regain, with name and interval


def changes(course: Sequence[Facts]) -> list[Difference]:
    """What each level changes in accuracy: points lost are negative, points regained positive.

    Args:
        course: results of the ensemble, then after each level, on the same images.
    """
    return [difference(after, before) for before, after in pairwise(course)]


def worst_level(table: Any, course: Sequence[Facts]) -> int:
    """The level (from 0) that clearly loses most accuracy; if none does, the one with the largest error."""
    lost = [-step.points if step.clear else 0.0 for step in changes(course)] or [0.0]
    return int(np.argmax(lost if max(lost) > 0 else errors_of(table)))


def diagnosis(table: Any, course: Sequence[Facts]) -> str:
    """Every level that clearly loses or regains accuracy; if none loses any, the level with the largest error.

    Args:
        table: `results.frame(levels)`; course: as for `changes`, empty if unmeasured.
    """
    worst = worst_level(table, course)
    if not course:
        return _error_words(table, worst)
    steps = changes(course)
    lost = [level for level, step in enumerate(steps) if step.clear and step.points < 0]
    regained = [level for level, step in enumerate(steps) if step.clear and step.points > 0]
    gain = f"; {_moved(table, steps, regained, 'regain')}" if regained else ""
    if lost:
        return f"{first_up(_moved(table, steps, lost, 'lose'))} points of accuracy{gain}."
    level = int(np.argmin([step.points for step in steps]))
    points, ends = -steps[level].points, steps[level].ends
    if points <= 0:
        told = "No level loses accuracy"
    elif ends is None:
        told = f"The largest drop in accuracy is {number(points)} points, at {_level_name(table, level)}"
    else:
        drop = f"{number(points)}{within((-ends[1], -ends[0]))} points at {_level_name(table, level)}"
        told = f"No level clearly loses accuracy; the largest drop, {drop}, may be chance"
    return f"{told}{gain}. {_error_words(table, worst)}"


def _moved(table: Any, steps: Sequence[Difference], levels: Sequence[int], verb: str) -> str:
    """ "level 2 (fc1) loses 4.5 (1.2 to 7.8)", of a few levels; of more "levels 7 (9.1), 2 (4.5) and 3 (2.0) lose", by size."""
    amounts = [number(abs(steps[level].points)) for level in levels]
    if len(levels) > TOLD:
        ranked = sorted(zip(levels, amounts, strict=True), key=lambda each: -float(each[1]))
        return f"levels {listing([f'{level + 1} ({amount})' for level, amount in ranked])} {verb}"
    words = []
    for level, amount in zip(levels, amounts, strict=True):
        low, high = sorted(map(abs, steps[level].ends or (0, 0)))
        words.append(f"{_level_name(table, level)} {verb}s {amount}{within((low, high))}")
    return listing(words)


def errors_of(table: Any) -> np.ndarray:
    """(levels,) errors in per cent of their neurons' energy."""
    return 100 * (table["grouping share"] + table["approximation share"]).to_numpy(dtype=float)


def error_words(errors: Any, few: bool) -> list[str]:
    """Errors as labels: with a decimal if levels are few or the error is below 10 %."""
    return [number(error, 1 if few or error < 10 else 0) for error in errors]


def error_tips(table: Any) -> list[str]:
    """What each level loses to grouping and, if levels were fitted, to approximation."""
    both, columns = fitted(table), ("level", "grouping share", "approximation share")
    return [
        f"{name}<br>grouping {percent(100 * grouping)}" + (f", approximation {percent(100 * rest)}" if both else "")
        for name, grouping, rest in zip(*(table[column] for column in columns), strict=True)
    ]


def fitted(table: Any) -> bool:
    """Whether any level was fitted to targets; methods that only align neurons have none."""
    return set(table["form"]) != {"aligned"}


def _error_words(table: Any, level: int) -> str:
    share = percent(errors_of(table)[level])
    return f"{first_up(_level_name(table, level))} has the largest error: {share} of its neurons' energy."


def _level_name(table: Any, level: int) -> str:
    return f"level {level + 1} ({table['level'].iloc[level]})"
