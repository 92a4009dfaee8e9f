"""Kept work on finished runs, fine-tunings and landscapes: choose the shown piece, say why it stopped, start it, delete it.
Work in progress looks the same everywhere."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.address.rule import Parameter
from retrofit_app.address.session import Scope
from retrofit_app.figures import escaped, lettered
from retrofit_app.runs import followups
from retrofit_app.runs.progress import of_notes
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


def follow(is_going: Callable[[], bool], folder: Path, key: str, what: str) -> None:
    """Draw the progress of running work on a finished run, and the button that stops it, until it has ended."""
    watch(
        is_going, lambda: progress(folder, *of_notes(folder, time.time()), "Stops after the current step.", key, what)
    )


@dataclass(frozen=True)
class Shelf:
    """How a page keeps work of one kind."""

    kind: Kind
    scope: Scope
    parameter: str
    """Holds the key of the shown piece"""
    config: Callable[[Mapping[str, Any]], Any]
    """Turns a work's settings into its config"""
    title: Callable[[Work], str]
    """A piece's title in the list"""
    kept: str
    """What is left of unfinished work, in words"""
    again: str
    """The label of the button that starts it again"""
    ending: str = ""
    """Of the command that does it"""
    until_run: bool = False
    """Whether opening another run resets the choice"""

    @property
    def what(self) -> str:
        """The kind in words: "fine-tuning"."""
        return self.kind.words.removeprefix("the ")

    def shown(self, entry: runs.Entry) -> tuple[list[Work], Work | None]:
        """All of a run's work, last started first; and the piece that the address names, by default the first."""
        every = followups.works_of(entry, self.kind)
        keys = [work.name for work in every]

        def read(text: str) -> str:
            just_started = re.fullmatch(r"[0-9a-f]{10}", text) and followups.work_at(entry, self.kind, text).going
            if text not in keys and not just_started:
                raise ValueError(f"no such {self.what} of this run")
            return text

        first = keys[0] if keys else ""
        key = self.scope.one(Parameter(self.parameter, first, read, of_run=True, until_run=self.until_run))
        found = next((work for work in every if work.name == key), None)
        # If it is missing, its worker has not written its settings yet.
        return every, found or (followups.work_at(entry, self.kind, key) if key else None)

    def begin(self, entry: runs.Entry, config: Any) -> None:
        """Start the requested work, and show it; raises as `followups.begin`."""
        self.show(followups.begin(entry, config).name)

    def show(self, key: str) -> None:
        """Show the work with this key; for callbacks."""
        self.scope.change(**{self.parameter: key})


def piece(shelf: Shelf, entry: runs.Entry, every: Sequence[Work], work: Work, draw: Callable[[], None]) -> None:
    """Draw the shown piece of work: its progress, its result, or why it has none; and the list if there are several.

    Args:
        draw: draws the result.
    """
    by_key = {each.name: each for each in every}
    if len(every) > 1:
        st.selectbox(
            shelf.what.capitalize(),
            list(by_key),
            **shelf.scope.control(shelf.parameter),
            width=330,
            format_func=lambda key: (
                shelf.title(by_key[key]) + ("" if by_key[key].state == "done" else f" · {by_key[key].state}")
            ),
            help=f"Every {shelf.what} of this run, the newest first.",
        )
    if work.going:
        follow(lambda: work.going, work.folder, f"cancel-{shelf.scope.page}", shelf.what)
        return
    if work.state == "done":
        draw()
        delete(shelf, entry, work, every)
        return
    ended(work.state, work.folder, shelf.kept)
    with st.container(horizontal=True):
        if st.button(shelf.again, key=f"{shelf.scope.page}-again", icon=":material/replay:"):
            start(lambda: shelf.begin(entry, shelf.config(work.settings)))
        delete(shelf, entry, work, every)
    if work.state != "cancelled":
        last_lines(work.folder)


def ask(
    shelf: Shelf,
    entry: runs.Entry,
    label: str,
    asked: Callable[[], tuple[Any, str]],
    *,
    busy: bool,
    is_open: bool = False,
) -> None:
    """Draw the form of the next piece of work, in a box, and Start; networks are read only if it is open.

    Args:
        asked: draws the controls, and returns the config and what it takes, in Markdown; raises ValueError if it cannot work.
    """
    key = f"{shelf.what} of {entry.name}{' open' if is_open else ''}"
    box = st.expander(label, expanded=is_open, icon=":material/tune:", key=key, on_change="rerun")
    if not box.open:
        return
    with box:
        try:
            config, words = asked()
        except ValueError as error:
            st.warning(
                f"This is not possible: {escaped(lettered(runs.without_folders(error)))}", icon=":material/block:"
            )
            return
        st.markdown(words)
        work = followups.work_at(entry, config.kind, config.key(entry.folder))
        with st.container(horizontal=True, vertical_alignment="center"):
            if config.is_done(work):
                st.button(
                    "Show it",
                    key=f"show-{shelf.scope.page}",
                    icon=":material/visibility:",
                    on_click=shelf.show,
                    args=(work.name,),
                    help="This is already done.",
                )
            elif st.button(
                "Start",
                key=f"start-{shelf.scope.page}",
                type="primary",
                icon=":material/play_arrow:",
                disabled=busy,
                help="Runs in its own process: you can reload or close the page.",
            ):
                start(lambda: shelf.begin(entry, config))
            first = " First make the record: its command is on Fuse, under Copy the shown run." * entry.shipped
            st.caption(f"Or on the command line, {runs.where(entry)}.{first}")
        st.code(f"{config.command(record_of(entry))}{shelf.ending}", language="bash", wrap_lines=True)


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
