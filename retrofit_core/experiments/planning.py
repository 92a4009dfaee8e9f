"""Plan the units that tables need: each once, with its result or its expected time."""

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cells import Cell
from .results import Result, all_results
from .units import Unit
from .work import finished


@dataclass(frozen=True)
class PlannedUnit:
    """A unit with its state."""

    unit: Unit
    result: Result | None
    """None: to do"""
    seconds: float | None
    """Expected seconds; None if unknown"""


def plan(cells: Iterable[Cell], root: str | Path, known: Mapping[str, Result] | None = None) -> list[PlannedUnit]:
    """The units of cells, each once, after the units that they need; first seeds come first.

    Args:
        known: further results by key, which count like those of the runs folder.
    """
    units: dict[str, Unit] = {}
    for cell in cells:
        for unit in (*cell.units, *([cell.relative_to] if cell.relative_to else [])):
            for each in (*all_needs(unit), unit):
                units.setdefault(each.key(), each)
    past = {**(known or {}), **all_results(root)}
    return [
        PlannedUnit(unit, result := finished(unit, root, known), None if result else expected(unit, past.values()))
        for unit in units.values()
    ]


def all_needs(unit: Unit) -> Iterator[Unit]:
    """The units that a unit needs, recursively, in the order of work."""
    for needed in unit.needs():
        yield from all_needs(needed)
        yield needed


def expected(unit: Unit, past: Iterable[Result]) -> float | None:
    """Median seconds of units of the same kind: the same work on the same networks and number of images."""
    ours = _kind(unit.to_json())
    # A fine-tuning's `all_seconds` may include retraining missing parents.
    seconds = "seconds" if ours[0] == "fine-tuning" else "all_seconds"
    times = [result.metrics[seconds] for result in past if not result.refusal and _kind(result.unit) == ours]
    return statistics.median(times) if times else None


def _kind(unit: dict[str, Any]) -> tuple[Any, ...]:
    if "fine-tuning" in unit:
        return ("fine-tuning", unit["fine-tuning"]["epochs"], *_kind(unit["start"])[-2:])
    training = unit.get("training", {})
    networks = (str(training.get("arch")), training.get("parts"))
    if "parent" in unit:
        # Each part of a full split has all images, that of other splits a share.
        images = (training.get("data"), training.get("split") == "full")
        return ("parent", *images, training.get("epochs"), *networks)
    if "landscape" in unit:
        settings = unit["landscape"]
        return ("landscape", settings["resolution"], settings["images"], *networks)
    run = unit.get("fusion", {})
    names = ("method", "importance", "samples", "augment", "options")
    return ("fusion", *(str(run.get(name)) for name in names), *networks)
