"""Your runs: one table with ticks, and actions for ticked runs."""

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

import pandas as pd
import streamlit as st

from retrofit_app import figures, runs
from retrofit_app.address import session
from retrofit_app.figures import escaped, listing
from retrofit_app.figures.words import first_up
from retrofit_app.runs import methods
from retrofit_app.shell import navigation, picker
from retrofit_app.widgets import works

from .views import MOST_TICKS, VIEW, ticks_in_address

TABLE, OPEN, MADE, PROBLEMS = "runs-table", "runs-open", "runs-made", "runs-problems"  # keys
ROW, HEAD, MOST_HIGH = 35, 38, 500  # px of the table
STATES = {"created": "at work", "running": "at work", "done": "finished"}


def history() -> None:
    """Draw the user's runs, newest first, and the shipped ones below."""
    st.title("Your runs", anchor=False)
    for problem in st.session_state.pop(PROBLEMS, None) or []:
        st.error(escaped(problem))
    entries, names = picker.choice().entries, ticks_in_address()
    if all(entry.shipped for entry in entries):
        st.caption(
            "You have no runs of your own yet. *New fusion* starts one, and `retrofit fuse … --record FOLDER` records one. These "
            "runs came with the workbench:"
        )
    by_name = {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.shipped)}
    if gone := [name for name in names if name not in by_name]:
        st.warning(escaped(f"Not among these runs: {listing(gone)}."))
    ticks = [name for name in names if name in by_name]
    table(list(by_name.values()), ticks)
    actions([by_name[name] for name in ticks])
    for folder, sentence in picker.choice().unreadable.items():
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f":material/warning: {escaped(first_up(sentence))}", width="stretch")
            works.confirmed(f"delete-{folder.name}", "it", _delete, [folder], ticks)


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


def table(entries: Sequence[runs.Entry], ticks: list[str]) -> None:
    """Draw the table, whose ticks are in the address."""
    names = [entry.name for entry in entries]
    key = _key(names, ticks)

    def tick() -> None:
        now = [names[row] for row in sorted(st.session_state[key]["selection"]["rows"])]
        if len(now) > MOST_TICKS:
            st.toast(f"{MOST_TICKS} runs can be ticked at a time.", icon=":material/info:")
        first = now[:MOST_TICKS]
        st.session_state[MADE] = (names, first if first == now else None, st.session_state[MADE][2])
        VIEW.change(ticks=tuple(first))

    column = st.column_config
    st.dataframe(
        pd.DataFrame([line(entry, picker.choice().entry.name) for entry in entries]),
        key=key,
        hide_index=True,
        height=min(ROW * len(entries) + HEAD, MOST_HIGH),
        on_select=tick,
        selection_mode="multi-row",
        selection_default={"selection": {"rows": [names.index(name) for name in ticks]}},
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


def _key(names: list[str], ticks: list[str]) -> str:
    """The key of the table's widget. It changes when rows or ticks change elsewhere, because a widget takes ticks only once."""
    last_names, last_ticks, count = st.session_state.get(MADE, (None, None, 0))
    if (names, ticks) != (last_names, last_ticks):
        count += 1
        st.session_state[MADE] = (names, ticks, count)
    return f"{TABLE}-{count}"


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
            works.confirmed("delete", what, _delete, [entry.folder for entry in own], [entry.name for entry in ticks])
    finished = [entry.name for entry in ticks if entry.state == "done"]
    if len(finished) > 1:
        navigation.link(
            "compare",
            "Compare them side by side",
            "The page Compare: these runs with their parents, ensemble and average; how they differ, by class and by level.",
            runs="|".join(finished),
        )


def _delete(folders: Sequence[Path], ticks: list[str]) -> None:
    """Delete runs; some may have been started since the page was drawn."""
    gone, problems = set[str](), list[str]()
    for folder in folders:
        try:
            runs.delete(folder)
            gone.add(folder.name)
            picker.leave_run(folder.name)
        except ValueError as error:
            problems.append(f"Not deleted: {error}")
    st.session_state[PROBLEMS] = problems
    VIEW.change(ticks=tuple(name for name in ticks if name not in gone))
