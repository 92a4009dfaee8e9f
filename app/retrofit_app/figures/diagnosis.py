"""Which level loses most, as far as the numbers say: one rule for the headline and for the level that is opened."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .noise import difference
from .picture import number, percent


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
    if len(accuracy) == len(table) + 1 and (loss := largest_loss(accuracy, images)).clear:
        return loss.level
    return int(np.argmax(_errors(table)))


def diagnosis(table: Any, accuracy: Sequence[float], images: int) -> str:
    """What is lost at the worst level and what the numbers say of the cause, or that no level clearly loses.

    Args:
        table: `results.frame(levels)`; accuracy, images: as for `largest_loss`, accuracy empty where it was not measured.
    """
    worst = worst_level(table, accuracy, images)
    if len(accuracy) != len(table) + 1:
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
        f"L{_named(table, worst)[1:]} loses {number(loss.points)}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{number(loss.margin)} "
        f"points of accuracy{regained}; {_cause(table, worst)}"
    )


def fitted(table: Any) -> bool:
    """Whether any level was fitted; methods that only align neurons have no targets to miss."""
    return set(table["form"]) != {"aligned"}


def _cause(table: Any, level: int) -> str:
    """Its own errors, unless they are smaller than those of most levels, which lose less."""
    errors, row = _errors(table), table.iloc[level]
    own = percent(errors[level])
    if errors[level] < np.median(errors):
        largest = int(np.argmax(errors))
        return (
            f"its own error, {own} of its neurons' energy, does not explain that: {_named(table, largest)} has "
            f"{percent(errors[largest])}."
        )
    grouped = row["grouping share"] >= row["approximation share"]
    part = 100 * max(row["grouping share"], row["approximation share"]) / max(errors[level] / 100, 1e-300)
    cause = (
        "grouping: neurons of a group are not alike" if grouped else "approximation: the fit does not reach its targets"
    )
    return f"its error is {own} of its neurons' energy, {percent(part, 0)} of that {cause}."


def _error_words(table: Any, level: int) -> str:
    row, error = table.iloc[level], _errors(table)[level]
    how = f"{percent(100 * row['grouping share'] / max(error / 100, 1e-300), 0)} of that by grouping"
    return (
        f"L{_named(table, level)[1:]} has the largest error: {percent(error)} of its neurons' energy, "
        f"{how if fitted(table) else 'by grouping alone'}."
    )


def _errors(table: Any) -> np.ndarray:
    """Of each level, in per cent of its neurons' energy."""
    return 100 * (table["grouping share"] + table["approximation share"]).to_numpy(dtype=float)


def _named(table: Any, level: int) -> str:
    return f"level {level + 1} ({table['level'].iloc[level]})"
