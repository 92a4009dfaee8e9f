"""Which level loses most, as far as the numbers say: one rule for the headline and for the level that is opened."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .noise import difference
from .words import first_up, number, percent


@dataclass(frozen=True)
class Loss:
    """The largest loss of accuracy from one level to the next, in points."""

    level: int
    points: float
    margin: float
    """Half the 95 % interval"""
    regained: float
    """What the next level gains, 0 for nothing"""

    @property
    def clear(self) -> bool:
        """Whether it is larger than chance explains."""
        return self.points > self.margin


def largest_loss(accuracy: Sequence[float], images: int) -> Loss:
    """The largest loss over the levels.

    The interval is that of `noise.difference`.

    Args:
        accuracy: of the ensemble, then after each level, in per cent.
        images: on which it was measured; 0 (unknown) makes no loss clear.
    """
    changes = np.diff(np.asarray(accuracy, dtype=float))
    level = int(changes.argmin())
    lost = difference(accuracy[level], accuracy[level + 1], images)
    regained = max(float(changes[level + 1]), 0.0) if level + 1 < len(changes) else 0.0
    return Loss(level, lost.points, lost.margin, regained)


def worst_level(table: Any, accuracy: Sequence[float], images: int) -> int:
    """The level (from 0) that clearly loses most accuracy; where none does, that with the largest error."""
    if is_measured(table, accuracy) and (loss := largest_loss(accuracy, images)).clear:
        return loss.level
    return int(np.argmax(errors_of(table)))


def diagnosis(table: Any, accuracy: Sequence[float], images: int) -> str:
    """What is lost at the worst level and what the numbers say of the cause, or that no level clearly loses.

    Args:
        table: `results.frame(levels)`; accuracy, images: as for `largest_loss`, accuracy empty where it was not measured.
    """
    worst = worst_level(table, accuracy, images)
    if not is_measured(table, accuracy):
        return _error_words(table, worst)
    loss = largest_loss(accuracy, images)
    if loss.points <= 0:
        return f"No level loses accuracy. {_error_words(table, worst)}"
    if not loss.clear:
        within = (
            f"within chance (±\N{NO-BREAK SPACE}{number(loss.margin)} on {images:,} images)" if images else "unclear"
        )
        return (
            f"No level clearly loses accuracy: the largest drop, {number(loss.points)} points at {_named(table, loss.level)}, "
            f"is {within}. {_error_words(table, worst)}"
        )
    whole = f"all of which level {worst + 2} regains"
    part = f"of which level {worst + 2} regains {number(loss.regained)}"
    regained = f", {whole if loss.regained >= loss.points else part}" if loss.regained else ""
    return (
        f"{first_up(_named(table, worst))} loses {number(loss.points)}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{number(loss.margin)} "
        f"points of accuracy{regained}; {_cause(table, worst)}"
    )


def errors_of(table: Any) -> np.ndarray:
    """(levels,) errors in per cent of their neurons' energy."""
    return 100 * (table["grouping share"] + table["approximation share"]).to_numpy(dtype=float)


def error_words(errors: Any, few: bool) -> list[str]:
    """Errors beside their levels: of few levels with a decimal."""
    return [number(error, 1 if few or error < 10 else 0) for error in errors]


def error_tips(table: Any) -> list[str]:
    """What each level loses to grouping and, where levels were fitted, to approximation."""
    both, columns = fitted(table), ("level", "grouping share", "approximation share")
    return [
        f"{name}<br>grouping {percent(100 * grouping)}" + (f", approximation {percent(100 * rest)}" if both else "")
        for name, grouping, rest in zip(*(table[column] for column in columns), strict=True)
    ]


def is_measured(table: Any, accuracy: Sequence[float]) -> bool:
    """Whether there is an accuracy before the first level and after each."""
    return len(accuracy) == len(table) + 1


def fitted(table: Any) -> bool:
    """Whether any level was fitted; methods that only align neurons have no targets to miss."""
    return set(table["form"]) != {"aligned"}


def _cause(table: Any, level: int) -> str:
    """Its own errors, unless they are smaller than those of most levels, which lose less."""
    errors, row = errors_of(table), table.iloc[level]
    error = percent(errors[level])
    if errors[level] < np.median(errors):
        largest = int(np.argmax(errors))
        return (
            f"its own error, {error} of its neurons' energy, does not explain that: {_named(table, largest)} has "
            f"{percent(errors[largest])}."
        )
    grouped = row["grouping share"] >= row["approximation share"]
    part = 100 * max(row["grouping share"], row["approximation share"]) / max(errors[level] / 100, 1e-300)
    cause = (
        "grouping: neurons of a group are not alike" if grouped else "approximation: the fit does not reach its targets"
    )
    return f"its error is {error} of its neurons' energy, {percent(part, 0)} of that {cause}."


def _error_words(table: Any, level: int) -> str:
    row, error = table.iloc[level], errors_of(table)[level]
    how = f"{percent(100 * row['grouping share'] / max(error / 100, 1e-300), 0)} of that by grouping"
    return (
        f"{first_up(_named(table, level))} has the largest error: {percent(error)} of its neurons' energy, "
        f"{how if fitted(table) else 'by grouping alone'}."
    )


def _named(table: Any, level: int) -> str:
    return f"level {level + 1} ({table['level'].iloc[level]})"
