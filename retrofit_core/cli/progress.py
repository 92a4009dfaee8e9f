"""Progress of long work on standard error: a bar in a terminal, or a line now and then in a log file."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ..runs.store import noted
from ..system.monitor import Cancelled, Event, Monitor
from ..system.position import Position
from .terminal import err, say

#: Seconds between two lines.
EVERY = 60.0


class Log:
    """Progress in lines."""

    def __init__(self) -> None:
        self.position, self.said = Position(), time.monotonic()

    def note(self, event: Event) -> None:
        """Process an event; print the progress if nothing was printed for a while."""
        self.position.take(event)
        if time.monotonic() - self.said >= EVERY:
            self.said = time.monotonic()
            place = ": ".join(filter(None, (self.position.unit, self.position.words)))
            say(time.strftime("%H:%M"), place, to=err)


@contextmanager
def advised(advice: str) -> Iterator[None]:
    """If interrupted, or out of space, make the command say how to continue."""
    try:
        yield
    except (KeyboardInterrupt, Cancelled, OSError) as stopped:
        stopped.add_note(advice)
        raise


@contextmanager
def progress(quiet: bool, folder: Path | None = None) -> Iterator[Monitor]:
    """Show the current step, loss and accuracy, and the time left in its stage; nothing if `quiet`.

    Args:
        folder: shows the progress; others can cancel the work in it, see `store.noted`.
    """
    with (
        units_progress(0, quiet) as (bar, _),
        nullcontext(bar) if folder is None else noted(folder, bar) as monitor,
    ):
        yield monitor


@contextmanager
def units_progress(total: int, quiet: bool = False) -> Iterator[tuple[Monitor, Callable[[], None]]]:
    """Show a bar for all units of work and one for the current unit; also yields what to call after each unit.

    Args:
        total: number of units; 0 for no overall bar.
    """
    if quiet or not err.is_terminal:
        yield Monitor(None if quiet else Log().note), lambda: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(16),
        TextColumn("{task.fields[detail]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bars:
        whole = bars.add_task("all units", total=total, detail=f"0 of {total}", visible=total > 0)
        single, position = bars.add_task("starting", total=None, detail=""), Position()

        def show(event: Event) -> None:
            position.take(event)
            left = position.left(time.time())
            detail = ", ".join(filter(None, (position.measured, f"{left:.0f} s left" if left is not None else "")))
            # A bar without a total pulses.
            share = {"completed": position.share, "total": 1.0 if position.share else None}
            bars.update(single, description=position.words or position.unit or "starting", detail=detail, **share)

        def count() -> None:
            bars.advance(whole)
            bars.update(whole, detail=f"{bars.tasks[0].completed:.0f} of {total}")

        yield Monitor(show), count
