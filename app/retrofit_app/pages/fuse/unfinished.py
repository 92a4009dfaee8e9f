"""An unfinished run: its progress, or why it ended early and what to do."""

from functools import partial
from pathlib import Path

import streamlit as st

from retrofit_app import runs
from retrofit_app.address import session
from retrofit_app.figures import escaped
from retrofit_app.shell import picker
from retrofit_app.widgets import works

from . import going, starting


def panel(entry: runs.Entry) -> None:
    """Draw such a run; the shipped example is one click away."""
    active = entry.active
    st.title("Your fusion is in progress" if active else "Your fusion stopped before its end", anchor=False)
    st.markdown(escaped(runs.details(entry)))
    if active:
        works.watch(partial(going.is_going, entry.folder), partial(live, entry.folder))
    else:
        stopped(entry)


def stopped(entry: runs.Entry) -> None:
    """Draw why it stopped, and what to do."""
    show = st.warning if entry.state == "cancelled" else st.error
    show(escaped(runs.failure(entry)))
    with st.container(horizontal=True):
        if st.button(
            "Run again",
            icon=":material/replay:",
            type="primary",
            key="again",
            help="Fuses from the start. Trained networks stay, and a training continues after its last finished epoch.",
        ):
            starting.run_again(entry.folder)
        st.button(
            "Back to the shipped example",
            key="leave",
            on_click=session.open_run,
            args=(picker.choice().first,),
            help="The run stays in the list of your runs.",
        )
    if entry.state != "cancelled":
        works.last_lines(
            entry.folder,
            "You can paste them into a report: they leave out the names of this machine's folders.",
        )


def live(folder: Path) -> None:
    """Draw a run's progress."""
    entry = runs.read_entry(folder)
    share, words = going.share_and_words(entry)
    stops = "Stops after the current step, within a minute at the latest. Networks trained so far stay."
    works.progress(entry.folder, share, words, stops, "cancel", "run")
