"""Which network comes out when trained ones are fused? The first page: a finished run, and the form of a new one."""

import streamlit as st

from retrofit_app import fuse_form, fuse_history, fuse_progress, fuse_shown


def page() -> None:
    """A finished run as a whole, or the progress of one that goes on or stopped; then the form and the list of runs."""
    entry, entries = st.session_state.entry, st.session_state.entries
    if entry.state == "done":
        fuse_shown.page(entry, entries)
    else:
        fuse_progress.panel(entry)
    if not entry.active:
        fuse_form.form()
    fuse_history.history()


page()
