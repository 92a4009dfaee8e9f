"""A running run: its progress, and a notice about it on other views."""

import time
from pathlib import Path

import streamlit as st

from retrofit_app import runs
from retrofit_app.address import session
from retrofit_app.figures import LETTERS, escaped, percent
from retrofit_app.runs import progress
from retrofit_app.shell import picker
from retrofit_app.shell.errors import guarded
from retrofit_app.widgets import works

NOTICED = "noticed"  # the run whose end the user has not seen


def standing(entry: runs.Entry) -> tuple[progress.Progress, float, str]:
    """A run's progress, the share done, and both in words."""
    followed = session.first_time(f"progress:{entry.folder}", progress.Progress())
    started = entry.status.get("started") if entry.state == "running" else None
    if started:
        progress.follow(entry.folder, followed, started)
    known = followed if started else progress.Progress()
    words = progress.sentence(known, LETTERS, time.time(), started)
    return followed, progress.share(known, bool(followed.parents)), words


def notice(entries: list[runs.Entry], watched: str = "") -> None:
    """Draw a line about the running run, or about its end.

    Args:
        watched: the run on screen, which needs no notice.
    """
    going = next((entry for entry in entries if not entry.shipped and entry.active), None)
    if going is not None:
        session.remember(NOTICED, going.name)
    name = session.recall(NOTICED)
    if name is None:
        return
    if name == watched:
        session.forget(NOTICED)
    elif going is not None:
        _running(str(going.folder))
    elif ended := next((entry for entry in entries if entry.name == name), None):
        result = f"is done: {percent(ended.accuracy)}" if ended.accuracy is not None else "has ended"
        _line(f":material/flag: **Your {escaped(ended.config['method'])} fusion {result}.**", name)


@st.fragment(run_every=works.POLL)
@guarded
def _running(folder: str) -> None:
    """Poll the record until the run ends; then rerun the whole page, which reports the end."""
    entry = runs.read_entry(Path(folder))
    if not entry.active:
        session.forget(f"progress:{folder}")
        st.rerun()
    _, share, words = standing(entry)
    _line(f"**Your {escaped(entry.config['method'])} fusion is in progress.** {escaped(words)}", entry.name)
    st.progress(share)


def _line(words: str, name: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(words, width="stretch")
        st.button(
            "Show it",
            key="show-noticed",
            on_click=picker.to_run,
            args=(name,),
            help="Shows its progress or its result.",
        )
