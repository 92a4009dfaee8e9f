"""Your runs: open, go on, delete with a way back."""

from pathlib import Path

import streamlit as st

from retrofit_app import runs
from retrofit_app.address import session
from retrofit_app.figures import escaped, percent
from retrofit_app.shell import picker

from . import unfinished

SHOWN = 8
DELETED, ERROR = "deleted", "history-error"  # what the session remembers
WORDS = {
    "created": "in progress",
    "running": "in progress",
    "cancelled": "cancelled",
    "failed": "failed",
    "interrupted": "interrupted",
}


def history() -> None:
    """A line for each run of the user, newest first."""
    own = [entry for entry in picker.shown().entries if not entry.shipped]
    st.header("Your runs", anchor=False)
    _undo()
    if not own:
        st.caption(
            "No runs of your own yet: press Start above, or record one on the command line with "
            "`retrofit fuse … --record FOLDER`."
        )
        return
    everything = len(own) <= SHOWN or st.toggle(f"Show all {len(own)} runs", key="all-runs", help="Newest first.")
    for entry in own if everything else own[:SHOWN]:
        _line(entry)


def _line(entry: runs.Entry) -> None:
    opened = entry.name == picker.shown().entry.name
    with st.container(horizontal=True, vertical_alignment="center"):
        result = percent(entry.accuracy) if entry.accuracy is not None else WORDS.get(entry.state, entry.state)
        st.markdown(
            f"**{escaped(result)}** · {escaped(runs.details(entry))}" + (" · *open above*" if opened else ""), width=560
        )
        if not opened:
            st.button(
                "Open",
                key=f"open-{entry.name}",
                on_click=picker.to_run,
                args=(entry.name,),
                help="Shows this run on every page.",
            )
        if entry.resumable and st.button(
            "Go on", key=f"resume-{entry.name}", icon=":material/resume:", help="Takes it up after what is finished."
        ):
            unfinished.resume(entry)
        if not entry.active and not entry.analysing:
            st.button(
                "Delete",
                key=f"delete-{entry.name}",
                icon=":material/delete:",
                on_click=delete,
                args=(entry.folder,),
                help="Can be undone until you delete another run.",
            )


def delete(folder: Path) -> None:
    """Move a run to the trash, or say why not: it may have been started since the page was drawn."""
    try:
        runs.delete(folder)
    except ValueError as error:
        session.remember(ERROR, f"Not deleted: {error}")
        return
    session.remember(DELETED, folder.name)
    picker.leave_run(folder.name)


def restore(folder: Path) -> None:
    """Bring back the run that was deleted last."""
    try:
        runs.restore(folder)
    except ValueError as error:
        session.remember(ERROR, f"Not brought back: {error}")
    session.forget(DELETED)


def _undo() -> None:
    if error := session.forget(ERROR):
        st.error(escaped(error))
    name = session.recall(DELETED)
    if name is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"Run {escaped(name)} was deleted.", width="content")
        st.button(
            "Undo",
            key="undo",
            icon=":material/undo:",
            on_click=restore,
            args=(runs.runs_folder() / name,),
            help="Brings the run back as it was.",
        )
