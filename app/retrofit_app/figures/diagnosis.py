"""Which level loses most according to the numbers: one rule for the headline and the level that opens."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from .noise import Difference, Facts, difference
from .words import first_up, number, percent, within

#: The form of levels that average the parents' weights because the fit was switched off.
AVERAGED = "averaged"
#: That of a fit to targets that were stretched.
REPAIRED = "repaired"


@dataclass(frozen=True)
class Loss:
    """The largest accuracy loss from one level to the next."""

    level: int
    lost: Difference
    regained: float
    """What the next level gains, 0 if nothing"""


def largest_loss(course: Sequence[Facts]) -> Loss:
    """The largest clear loss over the levels, or the largest if none is clear.

    Args:
        course: results of the ensemble, then after each level, on the same images.
    """
    losses = [difference(before, after) for before, after in pairwise(course)]
    level = max(
        range(len(losses)), key=lambda each: (losses[each].clear and losses[each].points > 0, losses[each].points)
    )
    regained = max(-losses[level + 1].points, 0.0) if level + 1 < len(losses) else 0.0
    return Loss(level, losses[level], regained)


def worst_level(table: Any, course: Sequence[Facts]) -> int:
    """The level (from 0) that clearly loses most accuracy; if none does, the one with the largest error."""
    if is_measured(table, course) and (loss := largest_loss(course)).lost.clear and loss.lost.points > 0:
        return loss.level
    return int(np.argmax(errors_of(table)))


def diagnosis(table: Any, course: Sequence[Facts]) -> str:
    """What the worst level loses and the likely cause, or that no level clearly loses.

    Args:
        table: `results.frame(levels)`; course: as for `largest_loss`, empty if unmeasured.
    """
    worst = worst_level(table, course)
    if not is_measured(table, course):
        return _error_words(table, worst)
    loss = largest_loss(course)
    points, where = number(loss.lost.points), _named(table, loss.level)
    if loss.lost.points <= 0:
        return f"No level loses accuracy. {_error_words(table, worst)}"
    if loss.lost.ends is None:
        return f"The largest drop in accuracy is {points} points, at {where}. {_error_words(table, worst)}"
    if not loss.lost.clear:
        return (
            f"No level clearly loses accuracy; the largest drop, {points}{within(loss.lost.ends)} points at {where}, may be "
            f"chance. {_error_words(table, worst)}"
        )
    amount = "all of them" if loss.regained >= loss.lost.points else f"{number(loss.regained)} of them"
    regained = f"; level {worst + 2} regains {amount}" if loss.regained else ""
    return (
        f"{first_up(where)} loses {points}{within(loss.lost.ends)} points of accuracy{regained}. {_cause(table, worst)}"
    )


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


def is_measured(table: Any, course: Sequence[Any]) -> bool:
    """Whether accuracy is known before the first level and after each."""
    return len(course) == len(table) + 1


def fitted(table: Any) -> bool:
    """Whether any level was fitted to targets; methods that only align neurons have none."""
    return set(table["form"]) != {"aligned"}


def _cause(table: Any, level: int) -> str:
    """The level's own errors, unless they are below the median of all levels."""
    errors, row = errors_of(table), table.iloc[level]
    error = percent(errors[level])
    if errors[level] < np.median(errors):
        largest = int(np.argmax(errors))
        return (
            f"Its own error is {error} of its neurons' energy; {_named(table, largest)} has the largest, "
            f"{percent(errors[largest])}."
        )
    if row["grouping share"] >= row["approximation share"]:
        part, cause = _part(table, level, "grouping"), "grouping: the neurons of a group are not alike"
    else:
        missed = "the weights are averaged, not fitted" if row["form"] == AVERAGED else "the fit misses its targets"
        part, cause = _part(table, level, "approximation"), f"approximation: {missed}"
    return f"Its error is {error} of its neurons' energy, {part} from {cause}."


def _part(table: Any, level: int, kind: str) -> str:
    """One kind's part of a level's error: "all of it", "67 % of it"."""
    row = table.iloc[level]
    part = 100 * row[f"{kind} share"] / max(row["grouping share"] + row["approximation share"], 1e-300)
    if 0.5 <= part < 99.5:
        return f"{percent(part, 0)} of it"
    return f"{'' if part in (0, 100) else 'almost '}{'all' if part > 50 else 'none'} of it"


def _error_words(table: Any, level: int) -> str:
    how = _part(table, level, "grouping") if fitted(table) else "all of it"
    return (
        f"{first_up(_named(table, level))} has the largest error: {percent(errors_of(table)[level])} of its neurons' energy; "
        f"{how} from grouping."
    )


def _named(table: Any, level: int) -> str:
    return f"level {level + 1} ({table['level'].iloc[level]})"
