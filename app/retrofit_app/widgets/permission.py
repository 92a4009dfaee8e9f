"""Permission to open files outside the known folders that an address names.

Without it, clicking a link could make this machine read any path it names.
"""

from collections.abc import Iterable

import streamlit as st

from retrofit_app.models import sources

GRANTED = "granted"  # the session's files


def grant(names: Iterable[str]) -> None:
    """Allow opening these for the rest of this session: they were typed here, or a button was pressed."""
    st.session_state[GRANTED] = st.session_state.get(GRANTED, frozenset()) | set(names)


def closed(name: str) -> bool:
    """Whether a file or folder is outside the known folders and nobody has allowed it."""
    return name not in st.session_state.get(GRANTED, frozenset()) and not sources.is_known(name)
