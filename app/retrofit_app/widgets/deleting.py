"""Deleting work that is kept of a run, with a way back: the trash beside it holds what was deleted last."""

from collections.abc import Callable

import streamlit as st

from retrofit_app import runs
from retrofit_app.address import session
from retrofit_app.figures import escaped
from retrofit_app.runs import keeping
from retrofit_app.runs.keeping import Kept


def delete(key: str, kept: Kept, entry: runs.Entry, what: str, leave: Callable[[], None]) -> None:
    """A button that moves a piece of work to the trash; there is none for shipped work.

    Args:
        key: of what `undo` asks for.
        what: it is, in words: "fine-tuning".
        leave: called once it is gone: the page shows another one.
    """
    if not kept.is_shipped(entry):
        st.button(
            "Delete",
            key=f"{key}-delete",
            icon=":material/delete:",
            on_click=_delete,
            args=(key, kept, entry, leave),
            help=f"This {what}. Can be undone until you delete another one.",
        )


def undo(key: str, entry: runs.Entry, what: str) -> None:
    """Why something could not be deleted or brought back, and the way back from what was deleted of this run."""
    if problem := session.forget(f"{key}-problem"):
        st.error(escaped(problem))
    deleted: Kept | None = session.recall(f"{key}-deleted")
    if deleted is None or type(deleted).at(entry, deleted.name).folder != deleted.folder:  # of another run
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


def _delete(key: str, kept: Kept, entry: runs.Entry, leave: Callable[[], None]) -> None:
    try:
        keeping.delete(kept, entry)
    except ValueError as error:
        session.remember(f"{key}-problem", f"Not deleted: {error}")
        return
    session.remember(f"{key}-deleted", kept)
    leave()


def _restore(key: str, kept: Kept, entry: runs.Entry) -> None:
    session.forget(f"{key}-deleted")
    try:
        keeping.restore(kept, entry)
    except ValueError as error:
        session.remember(f"{key}-problem", f"Not brought back: {error}")
