"""The cells of tables with their results, for any data set or parents."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..methods import METHODS
from ..networks.architectures import parse
from ..runs.config import FIRST_METHOD
from .bundles import Bundle, GivenParents
from .cells import Cell, Column, Table
from .results import Result
from .scales import NEAREST, SCALES, Scale, data_set
from .units import FineTuning


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
    def is_earlier(self) -> bool:
        """Whether one of its methods has a newer version."""
        return any(not is_of_this_version(result) for result in (*self.results, self.start) if result)

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
    known: tuple[CellResults, ...]
    seeds: int
    """Expected number of fusions of the same parents"""

    @property
    def is_measured(self) -> bool:
        """Whether any of its cells has a number or a refusal."""
        return any(known.is_measured for known in self.known)

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
    for each in measured:
        fullest[each.work] = max(each.scale.name, fullest.get(each.work, each.scale.name), key=order.index)
    return [each for each in measured if each.given is None or fullest[each.work] == each.scale.name]


def _possible(table: Table, column: Column, scale: Scale, bundle: Bundle, seeds: int | None) -> list[Setting]:
    """A column's settings at a scale: with trained parents on the first data set with results, then with given ones, which may
    be smaller or trained for less; without results with given parents first."""
    every = list(every_setting(table, column, scale, bundle, seeds))
    given = [each for each in every if each.given]
    trained = {each.data: each for each in every if not each.given}
    measured = next((each for each in trained.values() if each.is_measured), None)
    return [measured, *given] if measured else [*given, trained[data_set(column.data, scale)]]


def every_setting(
    table: Table, column: Column, scale: Scale, bundle: Bundle, seeds: int | None = None
) -> Iterable[Setting]:
    """A column's settings at a scale, measured or not: with given parents, then with trained ones on each possible data set."""
    meant = seeds or scale.seeds
    starts = [_start(result.unit) for result in bundle.results.values()]
    most = max(meant, 1 + max((start.get("fusion", {}).get("seed", 0) for start in starts), default=0))
    parents = 1 + max((start.get("training", {}).get("seed", 0) for start in starts), default=0)

    def setting(data: str, given: GivenParents | None) -> Setting:
        single = dataclasses.replace(table, columns=(column,))
        source = given.source if given else None
        cells = single.cells(dataclasses.replace(scale, always=data), most, source, parents)
        known, results = [], bundle.results
        for cell in cells:
            units = (*cell.units, *([cell.relative_to] if cell.relative_to is not None else []))
            start = next((results.get(unit.start.key()) for unit in units if isinstance(unit, FineTuning)), None)
            known.append(CellResults(cell, tuple(results.get(unit.key()) for unit in units), start))
        return Setting(table, column, scale, data, given, tuple(known), meant)

    for given in bundle.given:
        if (table.name, column.name) in given.columns:
            yield setting(given.facts["data"], given)
    # Also where the scale itself would take no other data set: what was measured is shown, with a badge.
    names = (scale.always,) if scale.always else (column.data, *NEAREST[column.data])
    yield from (setting(name, None) for name in names)


def _start(unit: Mapping[str, Any]) -> Mapping[str, Any]:
    """A unit, or the one from which its fine-tuning started; for an ensemble, the first one's."""
    if "ensemble" in unit:
        return _start(unit["ensemble"][0])
    return _start(unit["start"]) if "start" in unit else unit


def is_of_this_version(result: Result) -> bool:
    """Whether its method's version has not changed since."""
    unit = _start(result.unit)
    if "fusion" not in unit:
        return True
    method = METHODS.get(unit["fusion"].get("method", FIRST_METHOD))  # `Fusion.to_json` omits it
    if method is None:
        return False
    if "training" in unit:
        versions = {method.version_for(parse(unit["training"]["arch"][0])["architecture"])}
    else:  # results do not store the architecture of given parents; `finished` reads their files
        versions = {method.version, method.version_for(next(iter(method.unchanged), None))}
    return result.inputs.get("method version", "") in map(str, versions)
