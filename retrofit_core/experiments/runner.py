"""Runs the units that are missing, one after another; `parallel` does it in processes or on a cluster.

Results are files, each written when its unit is done, so a kill loses at most the unit under way, and any number of runners
may share a folder: a unit that another one is at is tried again later.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ..system import files
from ..system.monitor import Cancelled, Monitor
from .planning import PlannedUnit, all_needs
from .results import Result
from .units import FineTuning, Parent, Unit
from .work import title, work

#: Seconds between two looks at units that other runners are at.
WAIT = 1.0
OnResult = Callable[[Unit, Result | str], None]


@dataclass(frozen=True)
class Outcome:
    """What a run of units came to."""

    done: int
    failed: list[tuple[Unit, str]]
    """Units, and why each failed"""
    left: int
    """Units that the time did not suffice for"""


class Skip(Enum):
    """Why a unit was left as it is."""

    BUSY = "another process is at it"
    LATE = "the time does not suffice"


#: Carries out some units: (index, what came of it) of each, as they are done.
Carrier = Callable[[Sequence[PlannedUnit]], Iterator[tuple[int, Result | str | Skip]]]


def run(
    units: Sequence[PlannedUnit],
    root: str | Path,
    *,
    monitor: Monitor | None = None,
    deadline: float | None = None,
    device: str = "auto",
    on_result: OnResult | None = None,
) -> Outcome:
    """Do the units that are missing, one after another.

    Args:
        deadline: seconds since 1970, which machines share, after which nothing goes on; a training keeps its finished
            epochs, a fusion that is not expected to be done by then is not begun.
        on_result: called with each unit and its result, or the reason of its failure.
    Raises:
        Cancelled: the monitor asked for it.
    """

    def carry_out(wave: Sequence[PlannedUnit]) -> Iterator[tuple[int, Result | str | Skip]]:
        for index, one in enumerate(wave):
            yield index, attempt(one, Path(root), device, deadline, monitor)

    return until_done(units, lambda waiting: [[one] for one in waiting], carry_out, on_result)


def until_done(
    units: Sequence[PlannedUnit],
    waves: Callable[[Sequence[PlannedUnit]], list[list[PlannedUnit]]],
    carry_out: Carrier,
    on_result: OnResult | None,
) -> Outcome:
    """Carry out what is missing, wave by wave, and what others were at again until it is done."""
    waiting = [one for one in units if one.result is None]
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
        busy: list[PlannedUnit] = []
        for wave in waves(waiting):
            ready = []
            for one in wave:
                needed = [failed[need.key()] for need in all_needs(one.unit) if need.key() in failed]
                if needed:  # not hours of the same training again
                    note(one.unit, f"it needs {title(needed[0][0])}, which failed: {needed[0][1]}")
                else:
                    ready.append(one)
            for index, result in carry_out(ready) if ready else ():
                if result is Skip.BUSY:
                    busy.append(ready[index])
                elif result is Skip.LATE:
                    late += 1
                else:
                    note(ready[index].unit, result)
        if len(busy) == len(waiting):
            time.sleep(WAIT)
        waiting = busy
    return Outcome(done, list(failed.values()), late)


def attempt(
    one: PlannedUnit, root: Path, device: str, deadline: float | None, monitor: Monitor | None = None
) -> Result | str | Skip:
    """A unit's result, the reason of its failure, or why it was left.

    Raises:
        Cancelled: the monitor asked for it.
    """
    outer = monitor or Monitor()

    def is_late() -> bool:
        outer.check()
        return deadline is not None and time.time() > deadline

    if is_late() or _too_long(one, deadline):
        return Skip.LATE
    outer.emit("phase", name=title(one.unit), unit=one.unit.key())
    try:
        return work(one.unit, root, Monitor(lambda event: outer.emit(**event), is_late), device)
    except files.Locked:
        return Skip.BUSY
    except Cancelled:
        outer.check()
        return Skip.LATE
    except Exception as error:  # one unit's defect must not cost the others' hours
        return str(error) if isinstance(error, ValueError) else repr(error)


def _too_long(one: PlannedUnit, deadline: float | None) -> bool:
    """Whether a unit that cannot go on later would not be done in time."""
    if deadline is None or isinstance(one.unit, Parent | FineTuning):
        return False
    return one.seconds is not None and time.time() + one.seconds > deadline
