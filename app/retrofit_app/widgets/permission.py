"""Permission to open files outside the known folders that an address or a record names.

Without it, clicking a link could make this machine read any path it names.
"""

from collections.abc import Iterable
from pathlib import PurePath

import streamlit as st

from retrofit_app.figures import escaped
from retrofit_app.models import sources

GRANTED = "granted"  # the session's files


def grant(names: Iterable[str]) -> None:
    """Allow opening these for the rest of this session: they were typed here, or a button was pressed."""
    st.session_state[GRANTED] = st.session_state.get(GRANTED, frozenset()) | set(names)


def closed(name: str) -> bool:
    """Whether a file or folder is outside the known folders and nobody has allowed it."""
    return name not in st.session_state.get(GRANTED, frozenset()) and not sources.is_known(name)


def may_open(data: str, key: str, verb: str = "Show images of") -> bool:
    """Return whether a run's data set may be read; if not, draw a button that allows it."""
    is_closed = closed(data)
    if is_closed:
        st.button(
            f"{verb} {escaped(PurePath(data).name)}",
            key=key,
            icon=":material/lock_open:",
            on_click=grant,
            args=([data],),
            help="This data set is outside your runs and data folders. The app does not read it until you allow it.",
        )
    return not is_closed
