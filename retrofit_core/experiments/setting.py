"""The cells of tables with their results, for any data set or parents."""

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .cells import Cell, Column, Table
from .results import GivenParents, Records, Result
from .scales import STAND_IN, Scale
from .units import FineTuning, ParentSource


@dataclass(frozen=True)
class CellResults:
    """A cell and the available results of its units."""

    cell: Cell
    results: tuple[Result | None, ...]
    """Results of its units, then of the unit that it is relative to"""
    start: Result | None = None
    """Result of the unit from which its fine-tuning started"""

    @property
    def refusal(self) -> str | None:
        """Why one of its methods does not apply."""
        return next((result.refusal for result in (*self.results, self.start) if result and result.refusal), None)

    @property
    def number(self) -> float | None:
        """The cell's number, in its metric's unit; None if anything is refused or missing."""
        numbers = [result.metric(self.cell.metric) for result in self.results if result and not result.refusal]
        measured = [number for number in numbers if number is not None]
        if len(measured) < len(self.results):
            return None
        total = sum(measured[: len(self.cell.units)])
        return total / measured[-1] if self.cell.relative_to is not None else total

    @property
    def is_measured(self) -> bool:
        """Whether it has a number or a refusal."""
        return self.number is not None or self.refusal is not None


@dataclass(frozen=True)
class Setting:
    """A column of a table at one scale, with parents of one kind, and its results."""

    table: Table
    column: Column
    scale: Scale
    data: str
    """The data set in use"""
    given: GivenParents | None
    """Given parents, in place of trained ones"""
    records: Records = field(repr=False)

    @cached_property
    def _fusion_seeds(self) -> dict[int, int]:
        """Set of parents -> number of fusion seeds with results, which may belong to other tables."""
        return self.records.seeds.get(self._source(0).key(), {})

    def _source(self, index: int) -> ParentSource:
        return self.given.source if self.given else self.column.source(self._scale, index)

    @property
    def _scale(self) -> Scale:
        return dataclasses.replace(self.scale, always=self.data)

    @cached_property
    def cells(self) -> tuple[CellResults, ...]:
        """The cells of the expected seeds of the first parents, and of all seeds of parents with results."""
        single, results, cells = dataclasses.replace(self.table, columns=(self.column,)), self.records.results, []
        for index, seeds in sorted(
            {**self._fusion_seeds, 0: max(self.scale.seeds, self._fusion_seeds.get(0, 0))}.items()
        ):
            for cell in single.cells(self._scale, seeds, self._source(index)):
                units = (*cell.units, *([cell.relative_to] if cell.relative_to is not None else []))
                start = next((results.get(unit.start.key()) for unit in units if isinstance(unit, FineTuning)), None)
                of_units = tuple(results.get(unit.key()) for unit in units)
                cells.append(CellResults(dataclasses.replace(cell, parents=index), of_units, start))
        return tuple(cells)

    @property
    def is_measured(self) -> bool:
        """Whether any of its cells has a number or a refusal."""
        return bool(self._fusion_seeds) and any(each.is_measured for each in self.cells)

    def is_expected(self, each: CellResults) -> bool:
        """Whether a cell is of the first parents and an expected seed."""
        return each.cell.seed < self.scale.seeds and not each.cell.parents

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of measured and of all expected cells."""
        expected = [each.is_measured for each in self.cells if self.is_expected(each)]
        return sum(expected), len(expected)

    @property
    def badge(self) -> str:
        """The scale, or which parents were given, and what replaces the paper's data set."""
        parents = f"given {self.given.about or 'parents'}" if self.given else self.scale.name
        return ", ".join(filter(None, [parents, self.substitute]))

    @property
    def substitute(self) -> str:
        """What replaces the paper's data set, such as "cifar10 for cifar100"; empty if nothing does."""
        return f"{self.data} for {self.column.data}" if self.data != self.column.data else ""

    @property
    def differences(self) -> str:
        """What differs from the paper, in words."""
        parents = f"given {self.given.about or 'parents'}" if self.given else self.scale.sentence
        return ", ".join(filter(None, [parents, self.substitute]))


def settings(
    table: Table,
    records: Records,
    scales: Sequence[Scale],
    columns: Collection[str] | None = None,
) -> list[Setting]:
    """The columns of a table in order, each at every scale and with all parents for which it was measured.

    A column without measurements appears once, at the first scale. What stands in for its data set is left out where the column
    was measured on its own.
    """
    written = []
    for column in table.columns:
        if columns is None or column.name in columns:
            every = [each for scale in scales for each in every_setting(table, column, scale, records)]
            measured = [each for each in every if each.is_measured]
            own = [each for each in measured if not each.substitute or each.scale.always]
            written += (own if any(not each.substitute for each in own) else measured) or every[:1]
    return written


def every_setting(table: Table, column: Column, scale: Scale, records: Records) -> list[Setting]:
    """A column's settings at a scale, measured or not: with trained parents on its data set, then on what stands in for it, and
    with given parents, which are fused as in the paper, at that scale."""
    data = (scale.always,) if scale.always else filter(None, (column.data, STAND_IN.get(column.data)))
    given = [each for each in records.given if (table.name, column.name) in each.columns and scale.name == "paper"]
    kinds = [*((name, None) for name in data), *((each.source.digests["data"], each) for each in given)]
    return [Setting(table, column, scale, name, each, records) for name, each in kinds]
