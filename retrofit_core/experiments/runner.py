"""Plan the units that tables need, each once, and run those without results one after another.

`parallel` runs them in processes or on a cluster.

Each result is a file, written when its unit is done, so killing a run loses at most the current unit. Any number of runners can
share a folder: units that another one works on are tried again later.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ..system import files
from ..system.monitor import Cancelled, Monitor
from .cells import Cell
from .results import Result
from .units import Unit
from .work import finished, title, work

#: Seconds between checks of units that other runners work on.
WAIT = 1.0
OnResult = Callable[[Unit, Result | str], None]


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run."""

    done: int
    failed: list[tuple[Unit, str]]
    """Units, and why each failed"""
    left: int
    """Number of units for which time ran out"""


class Skip(Enum):
    """Why a unit was skipped."""

    BUSY = "another process is working on it"
    LATE = "not enough time is left"


#: Runs units and yields (index, outcome) of each as they finish.
Carrier = Callable[[Sequence[Unit]], Iterator[tuple[int, Result | str | Skip]]]


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


def run(
    units: Sequence[Unit],
    root: str | Path,
    *,
    monitor: Monitor | None = None,
    deadline: float | None = None,
    device: str = "auto",
    on_result: OnResult | None = None,
) -> Outcome:
    """Run missing units, one after another.

    Args:
        units: without results.
        deadline: time in seconds since 1970 at which all work stops; a training keeps its finished epochs, and a fusion by
            gradient fits its levels.
        on_result: called with each unit and its result, or why it failed.
    Raises:
        Cancelled: the monitor requested it.
    """

    def carry_out(wave: Sequence[Unit]) -> Iterator[tuple[int, Result | str | Skip]]:
        for index, unit in enumerate(wave):
            yield index, attempt(unit, Path(root), device, deadline, monitor)

    return until_done(units, lambda waiting: [[unit] for unit in waiting], carry_out, on_result)


def until_done(
    units: Sequence[Unit],
    waves: Callable[[Sequence[Unit]], list[list[Unit]]],
    carry_out: Carrier,
    on_result: OnResult | None,
) -> Outcome:
    """Run missing units wave by wave, and retry those that others work on until they are done."""
    waiting = list(units)
    done, late = 0, 0
    failed: dict[str, tuple[Unit, str]] = {}

    def note(unit: Unit, result: Result | str) -> None:
        nonlocal done
        if isinstance(result, str):
            failed[unit.key()] = (unit, result)
        else:
            done += 1
        if on_result:
            on_result(unit, result)

    while waiting:
        busy: list[Unit] = []
        for wave in waves(waiting):
            ready = []
            for unit in wave:
                needed = [failed[need.key()] for need in all_needs(unit) if need.key() in failed]
                if needed:  # do not repeat hours of training
                    note(unit, f"it needs {title(needed[0][0])}, which failed: {needed[0][1]}")
                else:
                    ready.append(unit)
            for index, result in carry_out(ready) if ready else ():
                if result is Skip.BUSY:
                    busy.append(ready[index])
                elif result is Skip.LATE:
                    late += 1
                else:
                    note(ready[index], result)
        if len(busy) == len(waiting):
            time.sleep(WAIT)
        waiting = busy
    return Outcome(done, list(failed.values()), late)


def attempt(
    unit: Unit, root: Path, device: str, deadline: float | None, monitor: Monitor | None = None
) -> Result | str | Skip:
    """Run a unit; returns its result, why it failed, or why it was skipped.

    Raises:
        Cancelled: the monitor requested it.
    """
    outer = monitor or Monitor()

    def is_late() -> bool:
        outer.check()
        return deadline is not None and time.time() > deadline

    if is_late():
        return Skip.LATE
    outer.emit("phase", name=title(unit), unit=unit.key())
    try:
        return work(unit, root, Monitor(lambda event: outer.emit(**event), is_late), device)
    except files.Locked:
        return Skip.BUSY
    except Cancelled:
        outer.check()
        return Skip.LATE
    except Exception as error:  # one unit's failure must not stop the others
        return str(error) if isinstance(error, ValueError) else repr(error)
