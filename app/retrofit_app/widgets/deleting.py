"""Deleting work that is kept of a run, with a way back: the trash beside it holds what was deleted last."""

from collections.abc import Callable

import streamlit as st

from retrofit_app import runs
from retrofit_app.address import session
from retrofit_app.figures import escaped
from retrofit_app.runs import followups
from retrofit_core.runs.store import Kind, Work


def delete(key: str, kept: Work, entry: runs.Entry, what: str, leave: Callable[[], None]) -> None:
    """A button that moves a piece of work to the trash; there is none for shipped work.

    Args:
        key: of what `undo` asks for.
        what: it is, in words: "fine-tuning".
        leave: called once it is gone: the page shows another one.
    """
    if not followups.is_shipped(kept, entry):
        st.button(
            "Delete",
            key=f"{key}-delete",
            icon=":material/delete:",
            on_click=_delete,
            args=(key, kept, entry, leave),
            help=f"This {what}. Can be undone until you delete another one.",
        )


def undo(key: str, entry: runs.Entry, kind: Kind, what: str) -> None:
    """Why something could not be deleted or brought back, and the way back from what was deleted of this run."""
    if problem := session.forget(f"{key}-problem"):
        st.error(escaped(problem))
    deleted: Work | None = session.recall(f"{key}-deleted")
    if deleted is None or followups.work_at(entry, kind, deleted.name).folder != deleted.folder:  # of another run
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"A {escaped(what)} was deleted.", width="content")
        st.button(
            "Undo",
            key=f"{key}-undo",
            icon=":material/undo:",
            on_click=_restore,
            args=(key, deleted, entry),
            help="Brings it back as it was.",
        )


def _delete(key: str, kept: Work, entry: runs.Entry, leave: Callable[[], None]) -> None:
    try:
        followups.delete(kept, entry)
    except ValueError as error:
        session.remember(f"{key}-problem", f"Not deleted: {error}")
        return
    session.remember(f"{key}-deleted", kept)
    leave()


def _restore(key: str, kept: Work, entry: runs.Entry) -> None:
    session.forget(f"{key}-deleted")
    try:
        followups.restore(kept, entry)
    except ValueError as error:
        session.remember(f"{key}-problem", f"Not brought back: {error}")
