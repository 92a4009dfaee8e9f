"""Long work on standard error: a bar, or a line now and then where that is no terminal but a file or a service's log."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..system.monitor import Event, Monitor
from .terminal import err

#: Seconds between two lines.
EVERY = 60.0


class Log:
    """Where the work is, in lines."""

    def __init__(self) -> None:
        self.unit, self.level, self.phase, self.position = "", "", "", ""
        self.said = time.monotonic()

    def note(self, event: Event) -> None:
        """Take an event in; say where the work is if nothing was said for a while."""
        kind = event["kind"]
        if kind == "phase" and "unit" in event:
            self.unit, self.level, self.phase, self.position = event["name"], "", "", ""
        elif kind == "phase":
            self.phase, self.position = ", ".join(filter(None, (phase_words(event), parent_words(event)))), ""
            self.level = "" if "level" in event else self.level  # the phase names it
        elif kind == "level":
            self.level, self.phase, self.position = f"level {event['index'] + 1} of {event['total']}", "", ""
        elif kind in ("batch", "epoch"):
            epoch = event["epoch"] if "epochs" in event else event["index"]
            self.position = f"epoch {epoch} of {event.get('epochs', event.get('total'))}"
        elif kind in ("step", "evaluate") and event.get("total"):
            self.position = f"{100 * event['index'] / event['total']:.0f} %"
        if time.monotonic() - self.said >= EVERY:
            self.said = time.monotonic()
            words = ", ".join(filter(None, (self.level, self.phase, self.position)))
            line = ": ".join(filter(None, (self.unit, words)))
            err.print(f"{time.strftime('%H:%M')} {line}", markup=False, highlight=False, soft_wrap=True)


def phase_words(event: Event) -> str:
    """What is being done, and to what."""
    return " ".join(str(event[key]) for key in ("level", "network", "name") if key in event)


def parent_words(event: Event) -> str:
    """The parent that is at work; empty where the event is of no single one."""
    return f"parent {event['parent']} of {event['parents']}" if "parent" in event else ""


@contextmanager
def _bars(quiet: bool, *columns: ProgressColumn) -> Iterator[Progress | None]:
    """Bars that go when the work is done; none where nobody sees them."""
    shown = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[detail]}"), TimeElapsedColumn())
    if quiet or not err.is_terminal:
        yield None
        return
    with Progress(*shown, *columns, console=err, transient=True) as bars:
        yield bars


def _monitor(show: Callable[[Event], None] | None, quiet: bool) -> Monitor:
    return Monitor(show or (None if quiet else Log().note))


@contextmanager
def progress(quiet: bool) -> Iterator[Monitor]:
    """Level, step, and the phase in words; nothing if `quiet`."""
    with _bars(quiet) as bars:
        yield _monitor(_single(bars) if bars else None, quiet)


def _single(bars: Progress) -> Callable[[Event], None]:
    task = bars.add_task("starting", total=None, detail="")

    def show(event: Event) -> None:
        if event["kind"] == "phase":
            bars.update(task, description=phase_words(event), detail="")
        elif event["kind"] == "epoch":
            bars.update(task, detail=f"loss {event['loss']:.4g}")
        elif event["kind"] == "level":
            bars.update(task, description=str(event["name"]))
        if event["kind"] in ("level", "step", "evaluate", "epoch"):
            done, total = event.get("index", event.get("epoch", 0)), event.get("total", event.get("epochs"))
            bars.update(task, completed=done, total=total)

    return show


@contextmanager
def training_progress(quiet: bool) -> Iterator[Monitor]:
    """Network, epoch, loss, accuracy on held-out images, time left; nothing if `quiet`."""
    with _bars(quiet, TextColumn("left"), TimeRemainingColumn()) as bars:
        yield _monitor(_training(bars) if bars else None, quiet)


def _training(bars: Progress) -> Callable[[Event], None]:
    task = bars.add_task("starting", total=None, detail="")
    measured = ""

    def show(event: Event) -> None:
        nonlocal task, measured
        if event["kind"] == "phase":  # a task of its own, so that the time left starts afresh
            bars.remove_task(task)
            task, measured = bars.add_task(parent_words(event) or event["name"], total=None, detail=""), ""
        elif event["kind"] == "epoch":
            accuracy = "" if event["accuracy"] is None else f", held out {event['accuracy']:.2f} %"
            measured = f", loss {event['loss']:.4g}{accuracy}"
        elif event["kind"] == "batch":
            done = event["epoch"] - 1 + event["index"] / event["total"]
            detail = f"epoch {event['epoch']}/{event['epochs']}{measured}"
            bars.update(task, completed=done, total=event["epochs"], detail=detail)
        elif event["kind"] == "step" and event.get("total"):
            bars.update(task, completed=event["index"], total=event["total"])

    return show


@contextmanager
def units_progress(total: int) -> Iterator[tuple[Monitor, Callable[[], None]]]:
    """A bar for all units of work and one for the unit under way, and what to call when a unit is done."""
    with _bars(False) as bars:
        if bars is None:
            yield _monitor(None, False), lambda: None
            return
        whole = bars.add_task("all units", total=total, detail=f"0 of {total}")
        single, done = bars.add_task("starting", total=None, detail=""), 0

        def show(event: Event) -> None:
            if event["kind"] == "phase":
                bars.update(single, description=phase_words(event), detail="", completed=0, total=None)
            elif "total" in event or "epochs" in event:
                position = event.get("index", event.get("epoch", 0))
                bars.update(single, completed=position, total=event.get("total", event.get("epochs")))

        def count() -> None:
            nonlocal done
            done += 1
            bars.update(whole, completed=done, detail=f"{done} of {total}")

        yield _monitor(show, False), count
