"""Plan the units that tables need: each once, with its result."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from .cells import Cell
from .results import Result
from .units import Unit
from .work import finished


def plan(
    cells: Iterable[Cell], root: str | Path, known: Mapping[str, Result] | None = None
) -> list[tuple[Unit, Result | None]]:
    """The units of cells, each once, after the units that they need, with their results (None: to do); first seeds come first.

    Args:
        known: further results by key, which count like those of the runs folder.
    """
    units: dict[str, Unit] = {}
    for cell in cells:
        for unit in (*cell.units, *([cell.relative_to] if cell.relative_to else [])):
            for each in (*all_needs(unit), unit):
                units.setdefault(each.key(), each)
    return [(unit, finished(unit, root, known)) for unit in units.values()]


def all_needs(unit: Unit) -> Iterator[Unit]:
    """The units that a unit needs, recursively, in the order of work."""
    for needed in unit.needs():
        yield from all_needs(needed)
        yield needed
