"""The lines of a column: the paper's numbers and ours."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .cells import Column, Table
from .claims import Run
from .paper import Value, paper_values
from .results import Result
from .rows import BEST, PARENT, rows_by_score

#: States of a line.
MEASURED, REFUSED, MISSING = "measured", "refused", "not measured"
ACCURACY = "accuracy"
#: Row -> (parents, seed) -> result.
Measured = Mapping[str, Mapping[Run, Result]]


@dataclass(frozen=True)
class Line:
    """A row of a column: the paper's number and ours, in the unit of the column's metric (`reproduction.METRICS`)."""

    row: str
    paper: Value | None = None
    state: str = MISSING
    by_parents: tuple[tuple[float, ...], ...] = ()
    """Our measured numbers, (sets of parents, fusion seeds)"""
    parents: tuple[int, ...] = ()
    """Which sets of parents these are"""
    note: str = ""
    """Why it was refused, or the row that the number belongs to"""
    stands_for: str = ""
    """Our row with these numbers, if another one"""
    images: int = 0
    """Number of test images behind ours"""
    badge: str = ""
    """Badge of ours, if not the column's"""

    @property
    def values(self) -> tuple[float, ...]:
        """Our numbers for all parents and seeds."""
        return tuple(value for of_parents in self.by_parents for value in of_parents)

    @property
    def mean(self) -> float | None:
        """Our mean over parents of their means over seeds."""
        return statistics.fmean(map(statistics.fmean, self.by_parents)) if self.by_parents else None

    @property
    def deviation(self) -> float | None:
        """Our sample standard deviation over parents, or over the seeds of a single set of parents, in the metric's unit."""
        several = len(self.by_parents) > 1
        values = [statistics.fmean(values) for values in self.by_parents] if several else self.values
        return statistics.stdev(values) if len(values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, in the metric's unit (points for percentages)."""
        return None if self.mean is None or self.paper is None else self.mean - self.paper.mean

    @property
    def paper_words(self) -> str:
        """The paper's mean and deviation."""
        numbers = [each for each in (self.paper.mean, self.paper.deviation) if each is not None] if self.paper else []
        return " ± ".join(f"{each:.1f}" if round(each, 1) == each else f"{each:g}" for each in numbers) or "-"

    @property
    def words(self) -> str:
        """Our mean, deviation, and number of sets of parents and of fusions, or why there are none."""
        if self.mean is None:
            return self.state
        deviation = "" if self.deviation is None else f" ± {self.deviation:.2f}"
        parents = f"{len(self.by_parents)} parents, " if len(self.by_parents) > 1 else ""
        return f"{self.mean:.2f}{deviation} ({parents}{len(self.values)})"


def printed_values(table: Table, column: Column) -> dict[str, Value]:
    """Row -> the paper's number, from the full table if a short one repeats it."""
    values = [value for value in paper_values(table.name) if value.column == column.name]
    return {value.row: value for value in reversed(values)}


def lines_of(table: Table, column: Column, results: Sequence[Result]) -> tuple[Line, ...]:
    """The paper's rows in its order, then ours; rows with neither a number of the paper nor a result are left out."""
    printed = printed_values(table, column)
    by_row: dict[str, list[Result]] = {}
    for result in results:
        by_row.setdefault(result.row, []).append(result)
    singles = {row: _line(column, of_row, printed.get(row)) for row, of_row in by_row.items()}
    singles |= _sorted_parents(column, singles)
    lines = {row: Line(row, value) for row, value in printed.items()} | singles
    for row in table.paper_rows:
        by_score = [singles[each] for each in rows_by_score((row,)) if each in singles]
        if row.endswith(f", {BEST}") and by_score:
            lines[row] = _best(column, row, by_score, printed.get(row))
    order = dict.fromkeys((*table.paper_rows, *table.rows, *lines))
    return tuple(lines[row] for row in order if row in lines)


def _line(column: Column, results: Sequence[Result], paper: Value | None) -> Line:
    """The line of a row, from its results for all seeds and parents."""
    by_parents: dict[int, list[float]] = {}
    for result in sorted(results, key=lambda each: (each.parents, each.seed)):
        if result.value is not None:
            by_parents.setdefault(result.parents, []).append(result.value)
    refusal = next((result.refusal for result in results if result.refusal), "")
    return Line(
        results[0].row,
        paper,
        MEASURED if by_parents else REFUSED,
        tuple(map(tuple, by_parents.values())),
        tuple(by_parents),
        "" if by_parents else refusal,
        images=max(result.images for result in results) if column.metric == ACCURACY else 0,
    )


def _sorted_parents(column: Column, singles: Mapping[str, Line]) -> dict[str, Line]:
    """Parents' lines in descending order of our accuracies, set by set, as in the paper, if their architectures are the same."""
    rows = [f"{PARENT}{index}" for index in range(column.parts)]
    alike = len(set(column.arch)) == 1 and column.metric == ACCURACY
    if not alike or not all(row in singles and singles[row].values for row in rows):
        return {}
    if len({singles[row].parents for row in rows}) > 1:
        return {}
    ranked = sorted(rows, key=lambda row: -(singles[row].mean or 0.0))
    sets = [sorted(values, reverse=True) for values in zip(*(singles[row].by_parents for row in rows), strict=True)]

    def note(row: str, other: str) -> str:
        if len(sets) > 1:
            return "in the order of each set's accuracies"
        return "" if row == other else f"parent {other.removeprefix(PARENT)} of ours"

    return {
        row: replace(
            singles[other],
            row=row,
            paper=singles[row].paper,
            by_parents=numbers,
            note=note(row, other),
            stands_for=other,
        )
        for row, other, numbers in zip(rows, ranked, zip(*sets, strict=True), strict=True)
    }


def _best(column: Column, row: str, lines: Sequence[Line], paper: Value | None) -> Line:
    """The line of the best of several scores."""
    measured = [line for line in lines if line.mean is not None]
    sign = 1 if column.metric == ACCURACY else -1
    best = max(measured, key=lambda line: sign * (line.mean or 0.0), default=None)
    if best is None:
        return replace(lines[0], row=row, paper=paper)
    note = "; ".join(filter(None, [f"that of {best.row}", best.note]))
    return replace(best, row=row, paper=paper, note=note, stands_for=best.row)


def measured_rows(results: Sequence[Result]) -> Measured:
    """Results with a number, by row."""
    measured: dict[str, dict[Run, Result]] = {}
    for result in results:
        if result.value is not None:
            measured.setdefault(result.row, {})[result.parents, result.seed] = result
    return measured
