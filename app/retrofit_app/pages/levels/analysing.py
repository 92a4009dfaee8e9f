"""A finished run without analysis: what is missing, and a worker that adds it."""

from functools import partial
from pathlib import Path

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.runs import methods, progress
from retrofit_app.widgets import works
from retrofit_core.runs.store import notes_of


def panel(entry: runs.Entry) -> None:
    """Draw a button for the analysis, its progress, or how it ended."""
    if not methods.goes_level_by_level(entry):
        widgets.why(
            f"{methods.why_no_analysis(entry)}, so it has no analysis. Only methods that fit each level have "
            "other scores' groupings, accuracies after each level, and targets."
        )
        return
    with st.container(border=True):
        if entry.analysing:
            works.watch(lambda: entry.analysing, partial(_progress, entry.folder))
            return
        st.markdown(
            "**This run has no analysis**. Other scores' groupings, the accuracy after each level and targets are computed once, "
            "in about the time of the fusion, and kept in the record."
        )
        if state := str(notes_of(entry.folder).get("state") or ""):
            works.ended(state, entry.folder, "nothing of the analysis is kept, and the run is unchanged")
            works.last_lines(entry.folder)
        if entry.shipped or entry.state != "done":
            return
        if st.button(
            "Analyse this run",
            key="analyse",
            type="primary",
            icon=":material/query_stats:",
            help="Runs in its own process: you can reload or close the page.",
        ):
            works.start(lambda: runs.analyse(entry.folder))
        st.caption(f"Or on the command line, {runs.where(entry)}:")
        st.code(f"retrofit fuse --record {works.record_of(entry)} --analyse", language="bash", wrap_lines=True)


def _progress(folder: Path) -> None:
    stops = "Stops after the current step, within a minute at the latest. The run stays as it is."
    works.progress(folder, *progress.of_analysis(folder), stops, "cancel-analysis", "analysis")
