"""Output of commands: sentences, tables, JSON, shell commands to run next; and progress of long work on standard error."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..runs.config import RunConfig
from ..runs.store import noted
from ..system.monitor import Cancelled, Event, Monitor
from ..system.position import Position

if TYPE_CHECKING:
    from ..data import Images

#: Seconds between two lines of progress in a log.
EVERY = 60.0
# Without markup and emoji codes, which names of files, classes and networks may contain: a file run[a].safetensors, a class [/].
out, err = (Console(stderr=stderr, markup=False, emoji=False) for stderr in (False, True))


def say(*words: object, to: Console = out) -> None:
    """Print a sentence; the terminal wraps it."""
    to.print(*words, soft_wrap=True, highlight=False)


def say_normalisation(config: RunConfig, models: Sequence[str | Path], images: "Images") -> None:
    """Print the normalisation if checkpoints do not state it: a wrong one lowers accuracy without an error."""
    from ..networks.checkpoints import read_metadata

    silent = [Path(model).name for model in models if config.mean is None and "mean" not in read_metadata(model)]
    if silent:
        values = "; ".join(f"{name} {', '.join(map(str, getattr(images, name)))}" for name in ("mean", "std"))
        say(
            f"Normalisation: {values}, of {images.name}. {', '.join(silent)} does not record its own. If it was "
            "trained with another, these accuracies are wrong: pass --mean and --std."
        )


def networks_table(networks: dict[str, dict[str, Any]]) -> Table:
    table = new_table("network", "accuracy %", "loss", "calibration error")
    for name, value in networks.items():
        table.add_row(name, f"{value['accuracy']:.2f}", f"{value['loss']:.3f}", f"{value['calibration_error']:.3f}")
    return table


def new_table(*columns: str, title: str = "") -> Table:
    """A table for 80 columns whose first column is not wrapped."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, no_wrap=index == 0)
    return table


def print_json(content: dict[str, Any]) -> None:
    print(json.dumps(content, indent=1, default=str))


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
    """Show a bar for all pieces of work and one for the current one; also yields what to call after each.

    Args:
        total: number of pieces; 0 for no overall bar.
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
        whole = bars.add_task("in all", total=total, detail=f"0 of {total}", visible=total > 0)
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
