"""A progress bar for notebooks in plain HTML, which needs no widget extension."""

import time
from collections.abc import Callable, Iterator
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
    show, began, drawn, results = _display(), time.monotonic(), 0.0, list[Result | str]()

    def draw(step: str) -> None:
        nonlocal drawn
        drawn = time.monotonic()
        style = "width: 16em; vertical-align: middle"
        bar = f'<progress value="{len(results)}" max="{total}" style="{style}"></progress>'
        show(f"{bar} {len(results)} of {total} units, {drawn - began:.0f} s: {escape(step)}")

    def note(event: Event) -> None:
        position.take(event)
        if time.monotonic() - drawn > REDRAW:
            draw(position.phase or position.unit or "starting")

    def count(unit: Unit, result: Result | str) -> None:
        results.append(result)
        draw(title(unit))

    position = Position()
    draw("starting")
    yield Monitor(note), count
    failed = sum(isinstance(result, str) for result in results)
    words = f"{len(results)} of {total} missing units measured in {time.monotonic() - began:.0f} s"
    left = " Time ran out before the rest: run the same call to continue." if len(results) < total else ""
    show(f"{words}{f', {failed} failed' if failed else ''}.{left}")


def _display() -> Callable[[str], None]:
    """A function that updates HTML in the cell's output; does nothing outside a notebook."""
    try:
        from IPython import get_ipython
        from IPython.display import HTML, display
    except ImportError:
        return lambda html: None
    handle: Any = display(HTML(""), display_id=True) if get_ipython() is not None else None
    return lambda html: handle and handle.update(HTML(f"<div>{html}</div>"))
