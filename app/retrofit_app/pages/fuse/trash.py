"""Deleting runs with a way back: the trash holds what was deleted last."""

from collections.abc import Sequence

import streamlit as st

from retrofit_app import runs
from retrofit_app.address import session
from retrofit_app.figures import escaped, listing
from retrofit_app.shell import picker

PROBLEMS = "trash-problems"  # what the session remembers


def delete(names: Sequence[str]) -> list[str]:
    """Move runs to the trash; those that were there are gone for good. For callbacks.

    Returns:
        The names of those that were deleted; why others were not is told by `undo`: they may have been started since the page
        was drawn.
    """
    gone, problems = [], []
    for name in names:
        try:
            runs.delete(runs.runs_folder() / name, with_others=bool(gone))
        except ValueError as error:
            problems.append(f"Not deleted: {error}")
            continue
        gone.append(name)
        picker.leave_run(name)
    session.remember(PROBLEMS, problems)
    return gone


def restore() -> None:
    """Bring back what was deleted last. For callbacks."""
    problems = []
    for name in runs.deleted():
        try:
            runs.restore(runs.runs_folder() / name)
        except ValueError as error:
            problems.append(f"Not brought back: {error}")
    session.remember(PROBLEMS, problems)


def undo() -> None:
    """What could not be done, and the way back from what was."""
    for problem in session.forget(PROBLEMS) or []:
        st.error(escaped(problem))
    names = runs.deleted()
    if not names:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        what = f"Run {names[0]} was" if len(names) == 1 else f"The runs {listing(names)} were"
        st.markdown(f"{escaped(what)} deleted.", width="content")
        st.button(
            "Undo",
            key="undo",
            icon=":material/undo:",
            on_click=restore,
            help="Brings it back as it was. When you delete again, this deletion becomes final.",
        )
