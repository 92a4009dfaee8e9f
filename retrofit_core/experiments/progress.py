"""A progress bar in a notebook: plain HTML, so that it needs no widget extension."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from ..system.monitor import Event, Monitor
from .results import Result
from .runner import OnResult
from .units import Unit
from .work import title

#: Seconds between two drawings.
REDRAW = 0.5


@contextmanager
def notebook_bar(total: int) -> Iterator[tuple[Monitor, OnResult]]:
    """One bar for all units of work, and the step that is under way; nothing outside of a notebook.

    Args:
        total: units to do.
    """
    bar = _Bar(total, _display())
    bar.draw()
    yield Monitor(bar.note), bar.count
    bar.close()


class _Bar:
    """What is done, where it is shown, and when it was drawn last."""

    def __init__(self, total: int, handle: Any) -> None:
        self.total, self.handle = total, handle
        self.done, self.failed, self.step = 0, 0, "starting"
        self.began = time.monotonic()
        self.drawn = 0.0

    def note(self, event: Event) -> None:
        if event["kind"] == "phase":
            self.step = str(event.get("name", self.step))
        if time.monotonic() - self.drawn > REDRAW:
            self.draw()

    def count(self, unit: Unit, result: Result | str) -> None:
        self.done += 1
        self.failed += isinstance(result, str)
        self.step = title(unit)
        self.draw()

    def draw(self) -> None:
        bar = (
            f'<progress value="{self.done}" max="{self.total}" style="width: 16em; vertical-align: middle"></progress>'
        )
        self._show(f"{bar} {self.done} of {self.total} units, {self._seconds()}: {escape(self.step)}")

    def close(self) -> None:
        failed = f", {self.failed} failed" if self.failed else ""
        left = self.total - self.done
        self._show(
            f"{self.done} of {self.total} missing units measured in {self._seconds()}{failed}."
            + (" The rest is left for want of time: the same call goes on." if left else "")
        )

    def _seconds(self) -> str:
        return f"{time.monotonic() - self.began:.0f} s"

    def _show(self, html: str) -> None:
        self.drawn = time.monotonic()
        if self.handle is not None:
            from IPython.display import HTML

            self.handle.update(HTML(f"<div>{html}</div>"))


def _display() -> Any:
    """A place in the cell's output that can be drawn again; None outside of a notebook."""
    try:
        from IPython import get_ipython
        from IPython.display import HTML, display
    except ImportError:
        return None
    return display(HTML(""), display_id=True) if get_ipython() is not None else None
