"""A running run: its progress, and a notice about it on other views."""

import time
from functools import partial
from pathlib import Path

import streamlit as st

from retrofit_app import runs
from retrofit_app.address import session
from retrofit_app.figures import LETTERS, escaped, percent
from retrofit_app.runs import progress
from retrofit_app.widgets import works

NOTICED = "noticed"  # the run whose end the user has not seen


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


def notice(entries: list[runs.Entry], watched: str = "") -> None:
    """Draw a line about the running run, or about its end.

    Args:
        watched: the run on screen, which needs no notice.
    """
    going = next((entry for entry in entries if not entry.shipped and entry.active), None)
    if going is not None:
        st.session_state[NOTICED] = going.name
    name = st.session_state.get(NOTICED)
    if name is None:
        return
    if name == watched:
        st.session_state.pop(NOTICED, None)
    elif going is not None:
        works.watch(partial(is_going, going.folder), partial(_running, going.folder))
    elif ended := next((entry for entry in entries if entry.name == name), None):
        result = f"is done: {percent(ended.accuracy)}" if ended.accuracy is not None else "has ended"
        _line(f":material/flag: **Your {escaped(ended.config['method'])} fusion {result}.**", name)


def is_going(folder: Path) -> bool:
    """Whether a run has not ended; its progress is forgotten then. A run that is gone is the picker's to tell."""
    try:
        active = runs.read_entry(folder).active
    except ValueError:
        active = False
    if not active:
        st.session_state.pop(f"progress:{folder}", None)
    return active


def _running(folder: Path) -> None:
    entry = runs.read_entry(folder)
    share, words = share_and_words(entry)
    _line(f"**Your {escaped(entry.config['method'])} fusion is in progress.** {escaped(words)}", entry.name)
    st.progress(share)


def _line(words: str, name: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(words, width="stretch")
        st.button(
            "Show it",
            key="show-noticed",
            on_click=session.open_run,
            args=(name,),
            help="Shows its progress or its result.",
        )
