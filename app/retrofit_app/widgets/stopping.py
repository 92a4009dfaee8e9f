"""The button that asks a worker to stop."""

from pathlib import Path

import streamlit as st

from retrofit_app import runs


def stop(folder: Path, key: str, help: str) -> None:
    """Cancel the work in a folder; once asked for, the button says so."""
    stopping = runs.was_asked(folder)
    st.button(
        "Cancelling…" if stopping else "Cancel",
        key=key,
        icon=":material/stop:",
        disabled=stopping,
        on_click=runs.cancel,
        args=(folder,),
        help=help,
    )
