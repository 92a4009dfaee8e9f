"""Starting a run, or going on with one, and opening it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.address import session
from retrofit_app.figures import escaped
from retrofit_app.shell.picker import open_run, to_run

OPENED = "opened"  # what the session remembers


def begin(config: Any, training: Any = None) -> None:
    """Start, go on with, or open the run of a config."""
    _open_started(lambda: runs.start(config, training))


def go_on(folder: Path) -> None:
    """Go on with a run that ended early, from the files with which it began."""
    _open_started(lambda: runs.resume(folder))


def follow() -> None:
    """Draw the whole page if another run was opened from within a part of it; a press draws that part alone."""
    if session.forget(OPENED):
        st.rerun()


def _show(run: str) -> None:
    to_run(run)
    session.remember(OPENED, True)


def _open_started(start: Callable[[], Path]) -> None:
    """Open the run that was started, or say why none was."""
    try:
        folder = start()
    except runs.Busy as busy:
        st.warning(f"Not started: {escaped(busy)}")
        st.button(
            "Show that run",
            key="show-other",
            on_click=_show,
            args=(busy.run,),
            help="It has to end before another one starts.",
        )
        return
    except ValueError as error:
        st.error(f"Not started: {escaped(error)}")
        return
    open_run(folder.name)
