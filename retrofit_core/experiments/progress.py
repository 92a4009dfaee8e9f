"""A progress bar for notebooks in plain HTML, which needs no widget extension."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from ..system.monitor import Event, Monitor
from ..system.position import Position
from .results import Result
from .runner import OnResult
from .units import Unit
from .work import title

#: Seconds between updates.
REDRAW = 0.5


@contextmanager
def notebook_bar(total: int) -> Iterator[tuple[Monitor, OnResult]]:
    """Show a bar for all units of work, and the current step; nothing outside a notebook.

    Args:
        total: number of units.
    """
    try:
        from IPython import get_ipython
        from IPython.display import HTML, display

        handle: Any = display(HTML(""), display_id=True) if get_ipython() is not None else None
    except ImportError:
        handle = None
    drawn, done, position = 0.0, 0, Position()

    def draw(step: str) -> None:
        nonlocal drawn
        drawn = time.monotonic()
        if handle is not None:
            bar = f'<progress value="{done}" max="{total}"></progress>'
            handle.update(HTML(f"<div>{bar} {done} of {total} missing units measured: {escape(step)}</div>"))

    def note(event: Event) -> None:
        position.take(event)
        if time.monotonic() - drawn > REDRAW:
            draw(position.phase or position.unit or "starting")

    def count(unit: Unit, result: Result | str) -> None:
        nonlocal done
        done += 1
        draw(title(unit))

    draw("starting")
    yield Monitor(note), count
    draw("done" if done == total else "time ran out before the rest, run the same call to continue")
