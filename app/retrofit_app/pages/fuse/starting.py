"""Start a run, or run one again, and open it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.address import session
from retrofit_app.figures import escaped
from retrofit_app.shell.picker import open_run

OPENED = "opened"  # what the session remembers


def begin(config: Any, training: Any) -> None:
    """Start or open the run of a config; see `runs.start`."""
    _open_started(lambda: runs.start(config, training))


def run_again(folder: Path) -> None:
    """Run one that ended early again, with its original files."""
    _open_started(lambda: runs.run_again(folder))


def follow() -> None:
    """Rerun the whole page if a part of it opened another run; a press reruns only that part."""
    if st.session_state.pop(OPENED, None):
        st.rerun()


def _show(run: str) -> None:
    session.open_run(run)
    st.session_state[OPENED] = True


def _open_started(start: Callable[[], Path]) -> None:
    """Open the started run, or say why none was started."""
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
