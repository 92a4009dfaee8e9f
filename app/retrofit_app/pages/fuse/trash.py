"""Delete runs and leaderboards, and undo that: the trash holds what was deleted last."""

from collections.abc import Sequence

import streamlit as st

from retrofit_app import runs
from retrofit_app.figures import escaped, listing
from retrofit_app.runs import leaderboards
from retrofit_app.runs.leaderboards import KeptBoard
from retrofit_app.shell import picker

PROBLEMS = "trash-problems"  # what the session remembers
MOST_NAMES = 4  # names in the sentence


def delete(rows: Sequence[runs.Entry | KeptBoard]) -> list[str]:
    """Move runs, and leaderboards with theirs, to the trash, whose old content is gone for good. For callbacks.

    Returns:
        The names of deleted ones. `undo` says why others were not: they may have been started since the page was drawn.
    """
    gone, problems = [], []
    for row in rows:
        board = isinstance(row, KeptBoard)
        try:
            if board and row.going:
                raise ValueError(f"{row.words} is still running. Cancel it first.")
            for entry in row.runs if board else [row]:
                runs.delete(entry.folder, with_others=bool(gone))
                gone.append(entry.name)
                picker.leave_run(entry.name)
            if board:
                leaderboards.delete(row)
                gone.append(row.name)
        except ValueError as error:
            problems.append(f"Not deleted: {error}")
    st.session_state[PROBLEMS] = problems
    return gone


def restore() -> None:
    """Restore what was deleted last. For callbacks."""
    problems = []
    for bring_back, what in ((runs.restore, runs.deleted()), (leaderboards.restore, leaderboards.deleted())):
        for name in what:
            try:
                bring_back(runs.runs_folder() / name)
            except ValueError as error:
                problems.append(f"Not restored: {error}")
    st.session_state[PROBLEMS] = problems


def undo() -> None:
    """Say what failed, and offer to undo the last deletion."""
    for problem in st.session_state.pop(PROBLEMS, None) or []:
        st.error(escaped(problem))
    names, boards = runs.deleted(), [leaderboards.BOARDS[folder.parent.name].words for folder in leaderboards.deleted()]
    if not names:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"{escaped(_what(names, boards))} deleted.", width="content")
        st.button(
            "Undo",
            key="undo",
            icon=":material/undo:",
            on_click=restore,
            help="Brings it back as it was. When you delete again, this deletion becomes final.",
        )


def _what(names: Sequence[str], boards: Sequence[str]) -> str:
    """What was deleted, with its verb."""
    if boards:
        count = f"{len(names)} run{'' if len(names) == 1 else 's'}"
        if len(boards) == 1:
            return f"A {boards[0].removeprefix('the ')} with {count} was"
        return f"{len(boards)} leaderboards and sweeps with {count} were"
    if len(names) == 1:
        return f"Run {names[0]} was"
    return f"The runs {listing(names)} were" if len(names) <= MOST_NAMES else f"{len(names)} runs were"
