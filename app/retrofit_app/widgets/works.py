"""Work on a finished run that is kept, fine-tunings and landscapes: which piece is shown, why it stopped, what starts it, and
deleting it with a way back. What goes on is watched in the same words everywhere."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from retrofit_app import runs
from retrofit_app.address import session
from retrofit_app.address.rule import Parameter
from retrofit_app.address.session import Scope
from retrofit_app.figures import Picture, escaped
from retrofit_app.runs import followups
from retrofit_core.runs.store import Kind, Work

from .downloads import CAMERA


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


POLL = 0.7  # seconds between two looks at work that goes on


@dataclass(frozen=True)
class Shelf:
    """How a page keeps work of one kind."""

    kind: Kind
    what: str
    """In words: "fine-tuning" """
    scope: Scope
    parameter: str
    """Names the one that is shown"""
    config: Callable[[Mapping[str, Any]], Any]
    """What is asked for, of a work's settings"""
    until_run: bool = False
    """Whether opening another run ends what is shown"""
    elsewhere: Mapping[str, Any] = field(default_factory=dict)
    """Parameters with a meaning on one piece of work only, and what they are on another"""

    def of(self, entry: runs.Entry) -> list[Work]:
        """All of a run, the one that was begun last first."""
        return followups.works_of(entry, self.kind)

    def named(self, entry: runs.Entry, every: Sequence[Work]) -> Parameter:
        """The parameter: the key of one of these, by default of the first, or of one that has just been started."""
        keys = [work.name for work in every]

        def read(text: str) -> str:
            just_started = re.fullmatch(r"[0-9a-f]{10}", text) and followups.work_at(entry, self.kind, text).going
            if text not in keys and not just_started:
                raise ValueError(f"no such {self.what} of this run")
            return text

        return Parameter(self.parameter, keys[0] if keys else "", read, of_run=True, until_run=self.until_run)

    def chosen(self, entry: runs.Entry, every: Sequence[Work], key: str) -> Work | None:
        """The one of this key; None for ""."""
        found = next((work for work in every if work.name == key), None)
        # Else its worker has not written down yet what it does.
        return found or (followups.work_at(entry, self.kind, key) if key else None)

    def key_of(self, name: str) -> dict[str, Any]:
        """The parameters that show the work of this key."""
        return {self.parameter: name, **self.elsewhere}


def chooser(shelf: Shelf, every: Sequence[Work], title: Callable[[Work], str], help: str) -> None:
    """The list of the run's work, where there is more than one piece."""
    if len(every) < 2:
        return
    by_key = {work.name: work for work in every}

    def words(key: str) -> str:
        work = by_key[key]
        return title(work) + ("" if work.state == "done" else f" · {work.state}")

    control = shelf.scope.control(shelf.parameter)
    st.selectbox(shelf.what.capitalize(), list(by_key), **control, width=330, format_func=words, help=help)


def stopped(shelf: Shelf, entry: runs.Entry, work: Work, every: Sequence[Work], *, part: str, resumes: str) -> None:
    """Why a piece of work is not whole, and the way to the rest of it.

    Args:
        part: what there is, in words: "the finished epochs are kept".
        resumes: what going on does.
    """
    sentence = {
        "cancelled": f"Cancelled: {part}.",
        "interrupted": f"The worker was ended before it had finished: {part}.",
        "failed": f"Not finished: {runs.error_of(work.folder)}",
    }[work.state]
    (st.warning if work.state == "cancelled" else st.error)(escaped(sentence))
    with st.container(horizontal=True):
        if st.button("Go on with it", key=f"{shelf.scope.page}-resume", icon=":material/resume:", help=resumes):
            start(shelf, entry, shelf.config(work.settings))
        delete(shelf, entry, work, every)
    if work.state != "cancelled":
        last_lines(work.folder)


def last_lines(folder: Path, about: str = "") -> None:
    """The end of what a worker wrote, folded away; nothing where it wrote nothing."""
    if log := runs.log_tail(folder):
        with st.expander("The worker's last lines"):
            if about:
                st.caption(about)
            st.code(log, language=None)


def start_or_show(
    shelf: Shelf, entry: runs.Entry, config: Any, busy: bool, done: str, look: Literal["primary", "secondary"]
) -> None:
    """The button that starts what is asked for, or shows it where it is done.

    Args:
        done: what is said of what is done.
        look: of the button that starts: a page has one primary button.
    """
    work = followups.work_at(entry, config.kind, config.key(entry.folder))
    if config.is_done(work):
        st.button(
            "Show it",
            key=f"show-{shelf.scope.page}",
            icon=":material/visibility:",
            on_click=shelf.scope.change,
            kwargs=shelf.key_of(work.name),
            help=done,
        )
    elif st.button(
        "Start",
        key=f"start-{shelf.scope.page}",
        type=look,
        icon=":material/play_arrow:",
        disabled=busy,
        help="Runs in a process of its own: you can reload or close the page.",
    ):
        start(shelf, entry, config)


def start(shelf: Shelf, entry: runs.Entry, config: Any) -> None:
    """Start the worker, or go on, and show what it does; or say why not."""
    try:
        work = followups.begin(entry, config)
    except ValueError as error:
        st.warning(f"Not started: {escaped(error)}")
        return
    shelf.scope.move(**shelf.key_of(work.name))
    st.rerun()


def record_of(entry: runs.Entry) -> str:
    """What the record is called that the run's own command writes."""
    from retrofit_core.runs import RunConfig

    return RunConfig.from_json(entry.config).key() if entry.shipped else entry.name


# --- work that goes on ----------------------------------------------------------------------------


def progress(folder: Path, share: float, words: str, stops: str, key: str, what: str = "work") -> None:
    """The bar of work that goes on, and the button that stops it.

    Args:
        stops: what that does.
        key: of the button.
        what: it is, for the line that says that the page may be closed.
    """
    st.progress(share, text=escaped(words))
    stop(folder, key, stops)
    st.caption(f"You can reload or close this page. The {what} continues, and this address finds it again.")


def growing(key: str, picture: Picture, heading: str, caption: bool = True) -> None:
    """A picture of work that goes on: without a menu, for its files would be of that moment."""
    st.markdown(heading)
    config = {**CAMERA, "displayModeBar": False}
    st.plotly_chart(picture.figure, key=f"growing-{key}", theme=None, alt=picture.alt, config=config, width="stretch")
    if caption:
        st.caption(escaped(picture.caption))


# --- deleting -------------------------------------------------------------------------------------


def delete(shelf: Shelf, entry: runs.Entry, work: Work, every: Sequence[Work]) -> None:
    """A button that moves a piece of work to the trash, which holds what was deleted last; none for shipped work."""
    if not followups.is_shipped(work, entry):
        st.button(
            "Delete",
            key=f"{shelf.what}-delete",
            icon=":material/delete:",
            on_click=_delete,
            args=(shelf, entry, work, every),
            help=f"Deletes this {shelf.what}. You can undo it until you delete another one.",
        )


def undo(shelf: Shelf, entry: runs.Entry) -> None:
    """Why something could not be deleted or brought back, and the way back from what was deleted of this run."""
    if problem := session.forget(f"{shelf.what}-problem"):
        st.error(escaped(problem))
    deleted = followups.deleted(entry, shelf.kind)
    if deleted is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"A {escaped(shelf.what)} was deleted.", width="content")
        st.button(
            "Undo",
            key=f"{shelf.what}-undo",
            icon=":material/undo:",
            on_click=_restore,
            args=(shelf, entry, deleted),
            help="Brings it back as it was.",
        )


def _delete(shelf: Shelf, entry: runs.Entry, work: Work, every: Sequence[Work]) -> None:
    try:
        followups.delete(work, entry)
    except ValueError as error:
        session.remember(f"{shelf.what}-problem", f"Not deleted: {error}")
        return
    # The first is what is shown by default, so the address then names none: if it is the one that goes, the next is shown.
    shelf.scope.change(**shelf.key_of(every[0].name))


def _restore(shelf: Shelf, entry: runs.Entry, work: Work) -> None:
    try:
        followups.restore(work, entry)
    except ValueError as error:
        session.remember(f"{shelf.what}-problem", f"Not brought back: {error}")
