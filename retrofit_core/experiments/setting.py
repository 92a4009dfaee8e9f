"""The cells of tables with their results, for any data set or parents."""

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .bundles import Bundle, GivenParents
from .cells import Cell, Column, Table
from .results import Result
from .scales import NEAREST, SCALES, Scale, data_set
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
        known = [number for number in numbers if number is not None]
        if len(known) < len(self.results):
            return None
        total = sum(known[: len(self.cell.units)])
        return total / known[-1] if self.cell.relative_to is not None else total

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
    bundle: Bundle = field(repr=False)
    seeds: int
    """Expected number of fusions of the same parents"""

    @cached_property
    def _fused(self) -> dict[int, int]:
        """Set of parents -> number of fusion seeds with results, which may belong to other tables."""
        return self.bundle.seeds.get(self._source(0).key(), {})

    def _source(self, index: int) -> ParentSource:
        return self.given.source if self.given else self.column.source(self._scale, index)

    @property
    def _scale(self) -> Scale:
        return dataclasses.replace(self.scale, always=self.data)

    @cached_property
    def known(self) -> tuple[CellResults, ...]:
        """The cells of the expected seeds of the first parents, and of all seeds of parents with results."""
        single, found, known = dataclasses.replace(self.table, columns=(self.column,)), self.bundle.results, []
        for index, seeds in sorted({**self._fused, 0: max(self.seeds, self._fused.get(0, 0))}.items()):
            for cell in single.cells(self._scale, seeds, self._source(index)):
                units = (*cell.units, *([cell.relative_to] if cell.relative_to is not None else []))
                start = next((found.get(unit.start.key()) for unit in units if isinstance(unit, FineTuning)), None)
                results = tuple(found.get(unit.key()) for unit in units)
                known.append(CellResults(dataclasses.replace(cell, parents=index), results, start))
        return tuple(known)

    @property
    def is_measured(self) -> bool:
        """Whether any of its cells has a number or a refusal."""
        return bool(self._fused) and any(known.is_measured for known in self.known)

    @property
    def meant(self) -> list[CellResults]:
        """The expected cells: those of the first parents and of all expected seeds."""
        return [known for known in self.known if known.cell.seed < self.seeds and not known.cell.parents]

    @property
    def measured(self) -> int:
        """Number of expected cells with a number or a refusal."""
        return sum(known.is_measured for known in self.meant)

    @property
    def work(self) -> frozenset[str]:
        """Keys of the units of its first seed."""
        return frozenset(
            unit.key()
            for known in self.known
            if known.cell.seed == known.cell.parents == 0
            for unit in known.cell.units
        )

    @property
    def badge(self) -> str:
        """The scale, and what replaces the paper's data set or trained parents.

        Given parents have their own width and training, so it omits the scale `paper`, with whose settings they are fused.
        """
        parents = [f"given {self.given.about or 'parents'}"] if self.given else []
        scale = [] if parents and self.scale.name == "paper" else [self.scale.name]
        served = [self.substitute] if self.substitute else []
        return ", ".join([*scale, *parents, *served])

    @property
    def substitute(self) -> str:
        """What replaces the paper's data set, such as "cifar10 for cifar100"; empty if nothing does."""
        return f"{self.data} for {self.column.data}" if self.data != self.column.data else ""

    def has_parents_of(self, other: "Setting") -> bool:
        """Whether another setting has the same scale, data and kind of parents."""
        return (self.scale, self.data, self.given) == (other.scale, other.data, other.given)


def settings(
    table: Table,
    bundle: Bundle,
    scales: Sequence[Scale],
    seeds: int | None = None,
    columns: Collection[str] | None = None,
) -> list[Setting]:
    """The columns of a table in order, each at every scale and with all parents for which it was measured.

    A column without measurements appears once, at the first scale, with the parents given for it, if any. Of several possible
    data sets, it uses the first one with results, or else the one on disk. Scales do not shrink given parents: if several scales
    mean the same work for them, the fullest one gets it.
    """
    wanted = [column for column in table.columns if columns is None or column.name in columns]
    written = []
    for column in wanted:
        possible = [each for scale in scales for each in _possible(table, column, scale, bundle, seeds)]
        written += _at_fullest([each for each in possible if each.is_measured]) or possible[:1]
    return written


def _at_fullest(measured: Sequence[Setting]) -> list[Setting]:
    """The settings without those of given parents whose work also belongs to a fuller scale."""
    order = list(SCALES)
    fullest: dict[frozenset[str], str] = {}
    for each in (each for each in measured if each.given):
        fullest[each.work] = max(each.scale.name, fullest.get(each.work, each.scale.name), key=order.index)
    return [each for each in measured if each.given is None or fullest[each.work] == each.scale.name]


def _possible(table: Table, column: Column, scale: Scale, bundle: Bundle, seeds: int | None) -> list[Setting]:
    """A column's settings at a scale: with trained parents on the first data set with results, then with given ones, which may
    be smaller or trained for less; without results with given parents first."""
    every = every_setting(table, column, scale, bundle, seeds)
    given = [each for each in every if each.given]
    trained = {each.data: each for each in every if not each.given}
    measured = next((each for each in trained.values() if each.is_measured), None)
    return [measured, *given] if measured else [*given, trained[data_set(column.data, scale)]]


def every_setting(
    table: Table, column: Column, scale: Scale, bundle: Bundle, seeds: int | None = None
) -> list[Setting]:
    """A column's settings at a scale, measured or not: with given parents, then with trained ones on each possible data set."""
    of = [given for given in bundle.given if (table.name, column.name) in given.columns]
    # Also where the scale itself would take no other data set: what was measured is shown, with a badge.
    names = (scale.always,) if scale.always else (column.data, *NEAREST[column.data])
    kinds = [*((given.facts["data"], given) for given in of), *((name, None) for name in names)]
    return [Setting(table, column, scale, data, given, bundle, seeds or scale.seeds) for data, given in kinds]
