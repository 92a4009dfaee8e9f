"""The lines of a column: the paper's numbers and ours."""

import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from .claims import Run
from .paper import Value, paper_values
from .results import Result
from .rows import BEST, PARENT, applies, impossible, read_row, rows_by_score
from .setting import CellResults, Setting

#: States of a line.
MEASURED, REFUSED, MISSING, NOT_APPLICABLE, WITHOUT_CELL = "measured", "refused", "not measured", "N/A", "not planned"
ACCURACY = "accuracy"


@dataclass(frozen=True)
class Line:
    """A row of a column: the paper's number and ours, in the unit of the column's metric (`reproduction.METRICS`)."""

    row: str
    paper: Value | None
    state: str
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
        if self.paper is None:
            return self.state if self.state == NOT_APPLICABLE else "-"
        numbers = [each for each in (self.paper.mean, self.paper.deviation) if each is not None]
        return " ± ".join(f"{each:.1f}" if round(each, 1) == each else f"{each:g}" for each in numbers)

    @property
    def words(self) -> str:
        """Our mean, deviation, and number of sets of parents and of fusions, or why there are none."""
        if self.mean is None:
            return self.state
        deviation = "" if self.deviation is None else f" ± {self.deviation:.2f}"
        parents = f"{len(self.by_parents)} parents, " if len(self.by_parents) > 1 else ""
        return f"{self.mean:.2f}{deviation} ({parents}{len(self.values)})"


def printed_values(setting: Setting) -> dict[str, Value]:
    """Row -> the paper's number, from the full table if a short one repeats it."""
    values = [value for value in paper_values(setting.table.name) if value.column == setting.column.name]
    return {value.row: value for value in reversed(values)}


def lines_of(setting: Setting) -> tuple[Line, ...]:
    """The paper's rows in its order, then ours."""
    printed = printed_values(setting)
    by_row: dict[str, list[CellResults]] = {}
    for each in setting.cells:
        by_row.setdefault(each.cell.row, []).append(each)
    singles = {row: _line(setting, cells, printed.get(row)) for row, cells in by_row.items()}
    singles |= _sorted_parents(setting, singles)
    rows = dict.fromkeys((*setting.table.paper_rows, *setting.table.rows))
    lines = [
        _best(setting, row, [singles[each] for each in rows_by_score((row,)) if each in singles], printed.get(row))
        if row.endswith(f", {BEST}")
        else singles.get(row) or _line_without_cell(setting, row, printed.get(row))
        for row in rows
    ]
    return tuple(line for line in lines if line is not None)


def _line(setting: Setting, cells: Sequence[CellResults], paper: Value | None) -> Line:
    """The line of a row, from its cells for all seeds and parents."""
    by_parents: dict[int, list[float]] = {}
    for each in cells:
        if each.number is not None:
            by_parents.setdefault(each.cell.parents, []).append(each.number)
    values = tuple(map(tuple, by_parents.values()))
    refusal = next((each.refusal for each in cells if each.refusal), None) or ""
    state = MEASURED if values else REFUSED if refusal else MISSING
    samples = [int(result.metrics.get("samples", 0)) for each in cells for result in each.results if result]
    return Line(
        *(cells[0].cell.row, paper, state, values, tuple(by_parents), "" if values else refusal),
        images=max(samples, default=0) if setting.column.metric == ACCURACY else 0,
    )


def _sorted_parents(setting: Setting, singles: Mapping[str, Line]) -> dict[str, Line]:
    """Parents' lines in descending order of our accuracies, set by set, as in the paper, if their architectures are the same."""
    rows = [f"{PARENT}{index}" for index in range(setting.column.parts)]
    alike = len(set(setting.column.arch)) == 1 and setting.column.metric == ACCURACY
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


def _best(setting: Setting, row: str, lines: Sequence[Line], paper: Value | None) -> Line | None:
    """The line of the best of several scores; None if there is none."""
    if not lines:
        return _line_without_cell(setting, row, paper)
    measured = [line for line in lines if line.mean is not None]
    sign = 1 if setting.column.metric == ACCURACY else -1
    best = max(measured, key=lambda line: sign * (line.mean or 0.0), default=None)
    if best is None:
        return replace(lines[0], row=row, paper=paper)
    note = "; ".join(filter(None, [f"that of {best.row}", best.note]))
    return replace(best, row=row, paper=paper, note=note, stands_for=best.row)


def _line_without_cell(setting: Setting, name: str, paper: Value | None) -> Line | None:
    """The line of a row without cells: the method does not apply, or its number follows from others."""
    row, column = None, setting.column
    with suppress(ValueError):  # a row of other words
        row = read_row(name)
    if paper is not None:
        return Line(name, paper, WITHOUT_CELL, note=impossible(row) if row else "")
    if row is None or row.parent is not None or applies(row, column.parts, len(set(column.arch)) == 1):
        return None
    return Line(name, None, NOT_APPLICABLE)


def measured_rows(setting: Setting) -> dict[str, dict[Run, Result]]:
    """Row -> (parents, seed) -> result, for cells with a number."""
    measured: dict[str, dict[Run, Result]] = {}
    for each in setting.cells:
        result = each.results[0]
        if each.number is not None and result is not None:
            measured.setdefault(each.cell.row, {})[each.cell.parents, each.cell.seed] = result
    return measured
