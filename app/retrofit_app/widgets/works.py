"""Kept work on finished runs, fine-tunings and landscapes: choose the shown piece, say why it stopped, start it, delete it.
Work in progress looks the same everywhere."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from retrofit_app import runs
from retrofit_app.address.rule import Parameter
from retrofit_app.address.session import Scope
from retrofit_app.figures import escaped
from retrofit_app.runs import followups
from retrofit_core.runs.store import Kind, Work

from .errors import guarded


@st.fragment(run_every=0.7)  # seconds
@guarded
def watch(is_going: Callable[[], bool], draw: Callable[[], None]) -> None:
    """Draw running work again and again, which redraws only this part of the page; the whole page once it has ended."""
    if not is_going():
        st.rerun()
    draw()


def stop(folder: Path, key: str, help: str) -> None:
    """Draw the button that cancels the work in a folder; once pressed, it says so."""
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


@dataclass(frozen=True)
class Shelf:
    """How a page keeps work of one kind."""

    kind: Kind
    what: str
    """In words: "fine-tuning" """
    scope: Scope
    parameter: str
    """Holds the key of the shown piece"""
    config: Callable[[Mapping[str, Any]], Any]
    """Turns a work's settings into its config"""
    until_run: bool = False
    """Whether opening another run resets the choice"""

    def of(self, entry: runs.Entry) -> list[Work]:
        """All of a run's work, last started first."""
        return followups.works_of(entry, self.kind)

    def parameter_of(self, entry: runs.Entry, every: Sequence[Work]) -> Parameter:
        """The parameter: the key of one of these, by default the first, or of a work that has just started."""
        keys = [work.name for work in every]

        def read(text: str) -> str:
            just_started = re.fullmatch(r"[0-9a-f]{10}", text) and followups.work_at(entry, self.kind, text).going
            if text not in keys and not just_started:
                raise ValueError(f"no such {self.what} of this run")
            return text

        return Parameter(self.parameter, keys[0] if keys else "", read, of_run=True, until_run=self.until_run)

    def work_of(self, entry: runs.Entry, every: Sequence[Work], key: str) -> Work | None:
        """The work with this key; None for ""."""
        found = next((work for work in every if work.name == key), None)
        # If it is missing, its worker has not written its settings yet.
        return found or (followups.work_at(entry, self.kind, key) if key else None)

    def begin(self, entry: runs.Entry, config: Any) -> None:
        """Start the requested work, and show it; raises as `followups.begin`."""
        self.show(followups.begin(entry, config).name)

    def show(self, key: str) -> None:
        """Show the work with this key; for callbacks."""
        self.scope.change(**{self.parameter: key})


def chooser(shelf: Shelf, every: Sequence[Work], title: Callable[[Work], str], help: str) -> None:
    """Draw the list of the run's work if there are several pieces."""
    if len(every) < 2:
        return
    by_key = {work.name: work for work in every}

    def words(key: str) -> str:
        work = by_key[key]
        return title(work) + ("" if work.state == "done" else f" · {work.state}")

    control = shelf.scope.control(shelf.parameter)
    st.selectbox(shelf.what.capitalize(), list(by_key), **control, width=330, format_func=words, help=help)


def stopped(shelf: Shelf, entry: runs.Entry, work: Work, every: Sequence[Work], *, part: str, label: str) -> None:
    """Say why a piece of work is unfinished, and offer to start it again or delete it.

    Args:
        part: what exists, in words: "the finished epochs are kept".
        label: of the button that starts it again.
    """
    ended(work.state, work.folder, part)
    with st.container(horizontal=True):
        if st.button(label, key=f"{shelf.scope.page}-again", icon=":material/replay:"):
            start(lambda: shelf.begin(entry, shelf.config(work.settings)))
        delete(shelf, entry, work, every)
    if work.state != "cancelled":
        last_lines(work.folder)


def ended(state: str, folder: Path, part: str) -> None:
    """Say why work in a folder is unfinished; nothing for other states.

    Args:
        part: what exists, in words: "the finished epochs are kept".
    """
    sentence = {
        "cancelled": f"Cancelled: {part}.",
        "interrupted": f"The worker was ended before it had finished: {part}.",
        "failed": f"Not finished: {runs.error_of(folder)}",
    }.get(state)
    if sentence:
        (st.warning if state == "cancelled" else st.error)(escaped(sentence))


def last_lines(folder: Path, about: str = "") -> None:
    """Draw the end of a worker's output, folded; nothing if it wrote nothing."""
    if log := runs.log_tail(folder):
        with st.expander("The worker's last lines"):
            if about:
                st.caption(about)
            st.code(log, language=None)


def start_or_show(
    shelf: Shelf, entry: runs.Entry, config: Any, busy: bool, done: str, look: Literal["primary", "secondary"]
) -> None:
    """Draw the button that starts the requested work, or shows it if it is done.

    Args:
        done: help text for finished work.
        look: the start button's type: a page has one primary button.
    """
    work = followups.work_at(entry, config.kind, config.key(entry.folder))
    if config.is_done(work):
        st.button(
            "Show it",
            key=f"show-{shelf.scope.page}",
            icon=":material/visibility:",
            on_click=shelf.show,
            args=(work.name,),
            help=done,
        )
    elif st.button(
        "Start",
        key=f"start-{shelf.scope.page}",
        type=look,
        icon=":material/play_arrow:",
        disabled=busy,
        help="Runs in its own process: you can reload or close the page.",
    ):
        start(lambda: shelf.begin(entry, config))


def start(begin: Callable[[], object]) -> None:
    """Start work, and run the page again; or say why it is not started."""
    try:
        begin()
    except ValueError as error:
        st.warning(f"Not started: {escaped(error)}")
        return
    st.rerun()


def record_of(entry: runs.Entry) -> str:
    """The name of the record that the run's command writes."""
    from retrofit_core.runs import RunConfig

    if entry.shipped:
        return RunConfig.from_json(entry.config).key()
    around = entry.folder.parent.parent
    return entry.folder.relative_to(around if entry.base == around else entry.folder.parent).as_posix()


# --- work in progress -----------------------------------------------------------------------------


def progress(folder: Path, share: float, words: str, stops: str, key: str, what: str = "work") -> None:
    """Draw the progress bar of running work, and the button that stops it.

    Args:
        stops: what stopping does.
        key: the button's key.
        what: the kind of work, for the line that says that the page may be closed.
    """
    st.progress(share, text=escaped(words))
    stop(folder, key, stops)
    st.caption(f"You can reload or close this page. The {what} continues, and this address finds it again.")


# --- deleting -------------------------------------------------------------------------------------


def confirmed(key: str, what: str, act: Callable[..., None], *args: Any) -> None:
    """Draw a button that asks before it deletes."""
    with st.popover("Delete", icon=":material/delete:", key=f"{key}-asked"):
        st.button(f"Delete {what} for good", key=key, type="primary", on_click=act, args=args)


def delete(shelf: Shelf, entry: runs.Entry, work: Work, every: Sequence[Work]) -> None:
    """Draw the button that deletes work; none for shipped work. Says why the last attempt failed."""
    if problem := st.session_state.pop(f"{shelf.what}-problem", None):
        st.error(escaped(problem))
    if not followups.is_shipped(work, entry):
        confirmed(f"{shelf.what}-delete", f"this {shelf.what}", _delete, shelf, entry, work, every)


def _delete(shelf: Shelf, entry: runs.Entry, work: Work, every: Sequence[Work]) -> None:
    try:
        followups.delete(work, entry)
    except ValueError as error:
        st.session_state[f"{shelf.what}-problem"] = f"Not deleted: {error}"
        return
    # The address then names none and shows the first: if that is the deleted one, the next.
    shelf.show(every[0].name)
