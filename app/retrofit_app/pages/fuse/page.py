"""Which network comes out when trained ones are fused? The first page: a finished run, and the form of a new one."""

import streamlit as st

from . import finished, form, history, unfinished


def page() -> None:
    """A finished run as a whole, or the progress of one that goes on or stopped; then the form and the list of runs."""
    entry, entries = st.session_state.entry, st.session_state.entries
    if entry.state == "done":
        finished.page(entry, entries)
    else:
        unfinished.panel(entry)
    if not entry.active:
        form.form()
    history.history()
