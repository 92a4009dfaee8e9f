"""A run at work: started or run again, watched until it ends, and why it ended early."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import streamlit as st

from retrofit_app import runs
from retrofit_app.address import session
from retrofit_app.figures import LETTERS, escaped
from retrofit_app.runs import progress
from retrofit_app.shell import picker
from retrofit_app.widgets import works


def share_and_words(entry: runs.Entry) -> tuple[float, str]:
    """The share of a run that is done, and its progress in words."""
    key, started = f"progress:{entry.folder}", entry.status.get("started") if entry.state == "running" else None
    attempt, followed = st.session_state.get(key, (None, None))
    if followed is None or attempt != started:
        followed = progress.Progress()
    st.session_state[key] = started, followed
    if started:
        progress.follow(entry.folder, followed)
    words = progress.sentence(followed, LETTERS, time.time(), started)
    return progress.share(followed, bool(followed.parents)), words


def is_going(folder: Path) -> bool:
    """Whether a run has not ended; its progress is forgotten then. A run that is gone is the picker's to tell."""
    try:
        active = runs.read_entry(folder).active
    except ValueError:
        active = False
    if not active:
        st.session_state.pop(f"progress:{folder}", None)
    return active


# --- an unfinished run ----------------------------------------------------------------------------


def panel(entry: runs.Entry) -> None:
    """Draw such a run; the shipped example is one click away."""
    active = entry.active
    st.title("Your fusion is in progress" if active else "Your fusion stopped before its end", anchor=False)
    st.markdown(escaped(runs.details(entry)))
    if active:
        works.watch(partial(is_going, entry.folder), partial(live, entry.folder))
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
            begin(lambda: runs.run_again(entry.folder))
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
    share, words = share_and_words(entry)
    stops = "Stops after the current step, within a minute at the latest. Networks trained so far stay."
    works.progress(entry.folder, share, words, stops, "cancel", "run")


# --- a start --------------------------------------------------------------------------------------


def begin(start: Callable[[], Path]) -> None:
    """Start or open a run, and show it; or say why none was started."""
    try:
        folder = start()
    except ValueError as error:
        st.warning(f"Not started: {escaped(error)}")
        return
    picker.open_run(folder.name)
