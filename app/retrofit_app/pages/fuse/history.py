"""Your runs: one table with ticks, and actions for ticked runs."""

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

import pandas as pd
import streamlit as st

from retrofit_app import figures, runs
from retrofit_app.address import session
from retrofit_app.figures import escaped
from retrofit_app.figures.words import first_up
from retrofit_app.runs import methods
from retrofit_app.shell import navigation, picker
from retrofit_app.widgets import works

OPEN, PROBLEMS = "runs-open", "runs-problems"  # keys
ROW, HEAD, MOST_HIGH = 35, 38, 500  # px of the table
STATES = {"created": "at work", "running": "at work", "done": "finished"}


def history() -> None:
    """Draw the user's runs, newest first, and the shipped ones below."""
    st.title("Your runs", anchor=False)
    for problem in st.session_state.pop(PROBLEMS, None) or []:
        st.error(escaped(problem))
    entries = picker.choice().entries
    if all(entry.shipped for entry in entries):
        st.caption(
            "You have no runs of your own yet. *New fusion* starts one, and `retrofit fuse … --record FOLDER` records one. These "
            "runs came with the workbench:"
        )
    actions(table(sorted(entries, key=lambda entry: entry.shipped)))
    for folder, sentence in picker.choice().unreadable.items():
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f":material/warning: {escaped(first_up(sentence))}", width="stretch")
            works.confirmed(f"delete-{folder.name}", "it", _delete, [folder])


# --- the table ------------------------------------------------------------------------------------


def line(entry: runs.Entry, shown: str) -> dict[str, Any]:
    """A run's settings and accuracy.

    Args:
        shown: name of the run that all pages show.
    """
    return {
        "open": "shown" if entry.name == shown else "Open",
        "method": entry.config["method"],
        "accuracy": entry.accuracy,
        "±": None if entry.accuracy is None else figures.margin(entry.accuracy, entry.images),
        "state": STATES.get(entry.state, entry.state),
        "importance": entry.config.get("importance") if methods.weighs(entry) else "",
        "networks": runs.networks_words(entry).replace(" networks", "").replace(" split", ""),
        "data": PurePath(entry.config.get("data", "")).name,
        "samples": entry.config.get("samples"),
        "seed": entry.config.get("seed"),
        "run": f"{entry.name}{' (shipped)' if entry.shipped else ''}",
    }


def table(entries: Sequence[runs.Entry]) -> list[runs.Entry]:
    """Draw the table, and return the ticked runs."""
    names = [entry.name for entry in entries]
    column = st.column_config
    shown = st.dataframe(
        pd.DataFrame([line(entry, picker.choice().entry.name) for entry in entries]),
        key=f"runs {hash(tuple(names))}",  # of these rows
        hide_index=True,
        height=min(ROW * len(entries) + HEAD, MOST_HIGH),
        on_select="rerun",
        selection_mode="multi-row",
        placeholder="–",
        alt="Runs with their accuracies and settings.",
        column_config={
            "open": column.ButtonColumn(
                "", width=64, on_click=lambda: session.open_run(names[st.session_state[OPEN]["row"]]), key=OPEN
            ),
            "method": column.TextColumn("method", width=88),
            "accuracy": column.NumberColumn("accuracy", format="%.1f %%", width=72, help="Of the fused network."),
            "±": column.NumberColumn("±", format="%.1f", width=40, help="Half the 95 % interval, in points."),
            "state": column.TextColumn("state", width=84),
            "importance": column.TextColumn("importance", width=84),
            "networks": column.TextColumn(
                "networks", width=108, help="How many, and on which split they were trained."
            ),
            "data": column.TextColumn("data", width=48),
            "samples": column.NumberColumn("samples", width=60),
            "seed": column.NumberColumn("seed", width=42),
            "run": column.TextColumn("run", width=130),
        },
    )
    return [entries[row] for row in shown["selection"]["rows"]]


# --- actions for ticked runs ----------------------------------------------------------------------


def actions(ticks: Sequence[runs.Entry]) -> None:
    """Draw buttons for the ticked runs."""
    if not ticks:
        st.caption("Tick runs to delete or compare them.")
        return
    own = [entry for entry in ticks if not entry.shipped]
    with st.container(horizontal=True, vertical_alignment="center", key="runs-actions"):
        st.markdown(f"**{len(ticks)} ticked**", width="content")
        if own:
            what = "this run" if len(own) == 1 else f"these {len(own)} runs"
            works.confirmed("delete", what, _delete, [entry.folder for entry in own])
    finished = [entry.name for entry in ticks if entry.state == "done"]
    if len(finished) > 1:
        navigation.link(
            "compare",
            "Compare them side by side",
            "The page Compare: these runs with their parents, ensemble and average; how they differ, by class and by level.",
            runs="|".join(finished),
        )


def _delete(folders: Sequence[Path]) -> None:
    """Delete runs; some may have been started since the page was drawn."""
    problems = list[str]()
    for folder in folders:
        try:
            runs.delete(folder)
            picker.leave_run(folder.name)
        except ValueError as error:
            problems.append(f"Not deleted: {error}")
    st.session_state[PROBLEMS] = problems
