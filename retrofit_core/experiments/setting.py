"""The cells of tables beside the results that belong to them, whatever data set or parents they were measured with."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..methods import METHODS
from ..networks.architectures import parse
from ..runs import RunConfig
from .bundles import Bundle, GivenParents
from .cells import Cell, Column, Table
from .results import Result
from .scales import NEAREST, SCALES, Scale, data_set
from .units import FineTuning


@dataclass(frozen=True)
class CellResults:
    """A cell and the results of its units, as far as they are there."""

    cell: Cell
    results: tuple[Result | None, ...]
    """Of its units, then of what it is relative to"""
    start: Result | None = None
    """Of what its fine-tuning started from"""

    @property
    def refusal(self) -> str | None:
        """Why one of its methods does not apply."""
        return next((result.refusal for result in (*self.results, self.start) if result and result.refusal), None)

    @property
    def number(self) -> float | None:
        """The cell's number, in the unit of its metric; None where something is refused or not measured."""
        numbers = [result.metric(self.cell.metric) for result in self.results if result and not result.refusal]
        known = [number for number in numbers if number is not None]
        if len(known) < len(self.results):
            return None
        total = sum(known[: len(self.cell.units)])
        return total / known[-1] if self.cell.relative_to is not None else total

    @property
    def is_earlier(self) -> bool:
        """Whether one of its methods has another version now."""
        return any(not is_of_this_version(result) for result in (*self.results, self.start) if result)

    @property
    def is_measured(self) -> bool:
        """Whether it has a number or a refusal."""
        return self.number is not None or self.refusal is not None


@dataclass(frozen=True)
class Setting:
    """A column of a table at one scale, with parents of one kind, and what is known of it."""

    table: Table
    column: Column
    scale: Scale
    data: str
    """The data set that serves"""
    given: GivenParents | None
    """Parents that were given, in place of trained ones"""
    known: tuple[CellResults, ...]
    seeds: int
    """Fusions of the same parents that are meant to be there"""

    @property
    def is_measured(self) -> bool:
        """Whether any of its cells has a number or a refusal."""
        return any(known.is_measured for known in self.known)

    @property
    def meant(self) -> list[CellResults]:
        """The cells of the first parents and the seeds that are meant to be there."""
        return [known for known in self.known if known.cell.seed < self.seeds and not known.cell.parents]

    @property
    def measured(self) -> int:
        """How many of the cells meant have a number or a refusal."""
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
        """The scale, and what serves in place of the paper's data set or of trained parents.

        Given parents have a width and a training of their own, so the scale `paper`, whose settings they are fused with, does
        not name them.
        """
        parents = [f"given {self.given.about or 'parents'}"] if self.given else []
        scale = [] if parents and self.scale.name == "paper" else [self.scale.name]
        served = [f"{self.data} for {self.column.data}"] if self.data != self.column.data else []
        return ", ".join([*scale, *parents, *served])

    def has_parents_of(self, other: "Setting") -> bool:
        """Whether another setting's numbers were measured with the same kind of parents."""
        return (self.scale, self.data, self.given) == (other.scale, other.data, other.given)


def settings(
    table: Table,
    bundle: Bundle,
    scales: Sequence[Scale],
    seeds: int | None = None,
    columns: Collection[str] | None = None,
) -> list[Setting]:
    """The columns of a table, in its order: each at every scale and with all parents with which it was measured.

    A column that was measured nowhere is there once, at the first scale, with the parents that are given for it, if any.
    Where several data sets may serve, it is the first one with results, else the one that is on disk. Given parents are not made
    smaller: where several of the scales mean the same work with them, the fullest one has it.
    """
    wanted = [column for column in table.columns if columns is None or column.name in columns]
    written = []
    for column in wanted:
        possible = [each for scale in scales for each in _possible(table, column, scale, bundle, seeds)]
        written += _at_fullest([each for each in possible if each.is_measured]) or possible[:1]
    return written


def _at_fullest(measured: Sequence[Setting]) -> list[Setting]:
    """The settings without those of given parents whose work a fuller scale means too."""
    order = list(SCALES)
    fullest: dict[frozenset[str], str] = {}
    for each in measured:
        fullest[each.work] = max(each.scale.name, fullest.get(each.work, each.scale.name), key=order.index)
    return [each for each in measured if each.given is None or fullest[each.work] == each.scale.name]


def _possible(table: Table, column: Column, scale: Scale, bundle: Bundle, seeds: int | None) -> Iterable[Setting]:
    """A column's settings at a scale: with parents that were given, then with trained ones on the first data set with results."""
    trained: dict[str, Setting] = {}
    for each in _each(table, column, scale, bundle, seeds):
        if each.given or each.is_measured:
            yield each
        if not each.given:
            trained[each.data] = each
            if each.is_measured:
                return
    yield trained[data_set(column.data, scale)]


def every_setting(table: Table, bundle: Bundle, scales: Sequence[Scale]) -> Iterable[Setting]:
    """The columns of a table at all scales, with all parents and data sets that may serve, measured or not."""
    for column in table.columns:
        for scale in scales:
            yield from _each(table, column, scale, bundle, None)


def _each(table: Table, column: Column, scale: Scale, bundle: Bundle, seeds: int | None) -> Iterable[Setting]:
    """A column's settings at a scale: with parents that were given, then with trained ones, by the data sets that may serve."""
    meant = seeds or scale.seeds
    starts = [_start(result.unit) for result in bundle.results.values()]
    most = max(meant, 1 + max((start.get("fusion", {}).get("seed", 0) for start in starts), default=0))
    parents = 1 + max((start.get("training", {}).get("seed", 0) for start in starts), default=0)

    def setting(data: str, given: GivenParents | None) -> Setting:
        single = dataclasses.replace(table, columns=(column,))
        source = given.source if given else None
        cells = single.cells(dataclasses.replace(scale, always=data), most, source, parents)
        known = tuple(_known(cell, bundle.results) for cell in cells)
        return Setting(table, column, scale, data, given, known, meant)

    for given in bundle.given:
        if (table.name, column.name) in given.columns:
            yield setting(given.facts["data"], given)
    names = (scale.always,) if scale.always else (column.data, *(NEAREST[column.data] if scale.nearest else ()))
    yield from (setting(name, None) for name in names)


def _known(cell: Cell, results: Mapping[str, Result]) -> CellResults:
    units = (*cell.units, *([cell.relative_to] if cell.relative_to is not None else []))
    start = next((results.get(unit.start.key()) for unit in units if isinstance(unit, FineTuning)), None)
    return CellResults(cell, tuple(results.get(unit.key()) for unit in units), start)


def _start(unit: Mapping[str, Any]) -> Mapping[str, Any]:
    """A unit, or what its fine-tuning started from, of an ensemble the first one."""
    if "ensemble" in unit:
        return _start(unit["ensemble"][0])
    return _start(unit["start"]) if "start" in unit else unit


def is_of_this_version(result: Result) -> bool:
    """Whether its method still has the version with which it was measured."""
    unit = _start(result.unit)
    if "fusion" not in unit or "method version" not in result.inputs:
        return True
    method = METHODS.get(unit["fusion"].get("method", RunConfig.method))  # `Fusion.to_json` leaves out what is usual
    if method is None:
        return False
    if "training" in unit:
        versions = {method.version_for(parse(unit["training"]["arch"][0])["architecture"])}
    else:  # a result does not tell the architecture of given parents; `finished` reads their files
        versions = {method.version, method.version_for(next(iter(method.unchanged), None))}
    return result.inputs["method version"] in map(str, versions)
