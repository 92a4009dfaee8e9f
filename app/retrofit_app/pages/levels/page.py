"""Where along the levels is knowledge lost, and what happens inside one level?"""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import Palette, escaped
from retrofit_app.runs import methods
from retrofit_app.runs.levels import Overview, report_of
from retrofit_app.shell import lectures, picker
from retrofit_app.widgets import example, pictures, readings, works
from retrofit_app.widgets.errors import guarded
from retrofit_core.runs.store import notes_of

from . import parameters, stepper
from .reading import how_to_read
from .steps import DRAWN
from .view import NETWORK, View


def page() -> None:
    """Draw all levels, the stepper, and one level's steps."""
    entry, palette = picker.choice().entry, widgets.palette()
    with st.container(key="heading"):
        st.title("Where is knowledge lost?", anchor=False)
    if entry.state != "done":
        empty(entry)
        return
    overview = readings.overview(entry)  # without torch, so that it appears before that is loaded
    if overview.table.empty:
        empty(entry)
        return
    stepper.shortcuts()
    body(entry, palette)


@st.fragment
@guarded
def body(entry: runs.Entry, palette: Palette) -> None:
    """Draw all but the sidebar: another level or step reruns only this."""
    example.relink()
    overview = readings.overview(entry)
    names = list(overview.table["level"])
    where = parameters.where(names, names[overview.worst])
    index = names.index(where.level)
    with st.container(gap="xsmall", key="levels"):
        if lectures.read().lecture:
            if not (ratio := lectures.begin()):
                return
            stepper.stepper(names, index, lecture=True)
            with st.container(key="facts"):
                st.markdown(stepper.facts(entry, overview, index, lecture=True))
            network(entry, overview, palette, index, names, ratio)
            level(entry, overview, palette, index, where, ratio)
            return
        network(entry, overview, palette, index, names)
        st.header("What happens inside one level?", anchor=False)
        stepper.stepper(names, index)
        level(entry, overview, palette, index, where)
    st.divider()
    st.download_button(
        "Report of all levels (CSV)",
        lambda: widgets.csv(report_of(overview), entry),
        f"{entry.name}-levels.csv",
        "text/csv",
        on_click="ignore",
        icon=":material/download:",
        help="Widths, errors (and their shares of the importance-weighted energy), ridge, form of the fit, accuracy and "
        "seconds of every level.",
    )


def empty(entry: runs.Entry) -> None:
    """Say why a run has no levels: it is not finished, or its method has none."""
    method = entry.config.get("method", "")
    if entry.active:
        why = "This run is in progress. Its levels appear here once it is done."
    elif entry.state == "done":
        kept = methods.keeps_one(entry)
        why = f"{f'Auto kept {kept}' if kept else f'{method} does not work level by level'}, so there are no levels to look at."
    else:
        why = "This run stopped before its end. You can run it again on the page Fuse."
    widgets.why(f"{why} Choose another run on the left to see its levels.")


# --- all levels -----------------------------------------------------------------------------------


def network(
    entry: runs.Entry, overview: Overview, palette: Palette, index: int, names: Sequence[str], lecture: float = 0.0
) -> None:
    """Draw where something is lost, in a sentence and level by level; a click on a level opens it.

    Args:
        lecture: the scale of a lecture's page relative to 1280 x 720; 0 for none.
    """
    large = {"large": (round(NETWORK * lecture), lecture)} if lecture else {}

    def go() -> None:
        points = st.session_state["strip"]["selection"]["points"]
        if points:
            parameters.LEVELS.change(level=names[int(points[0]["customdata"][0])])

    widgets.chart(
        "strip",
        pictures.picture(entry, "levels", palette, index, **large),
        entry,
        bare=bool(lecture),
        on_select=go,
        selection_mode="points",
    )


# --- one level ------------------------------------------------------------------------------------


def level(
    entry: runs.Entry, overview: Overview, palette: Palette, index: int, where: Any, lecture: float = 0.0
) -> None:
    """Draw the chosen step. From here on, everything needs the whole record, and torch to read it."""
    try:
        run, analysis = readings.record(entry), readings.analysis(entry)
    except ValueError as error:
        st.error(f"This run's levels are not shown: {escaped(runs.without_folders(error, entry.folder))}")
        return
    report = run.levels[index]
    analysed = analysis.levels[index] if analysis is not None and index < len(analysis.levels) else None
    scores = list(analysed.labels) if analysed is not None else [run.config.importance]
    view = View(
        entry,
        palette,
        index,
        report,
        analysed,
        scores,
        analysis.missing if analysis is not None else {},
        parameters.look(
            scores,
            run.config.importance if run.config.importance in scores else scores[0],
            report.width,
            readings.grouping(entry, index).densest or 0,
        ),
        last=index == len(run.levels) - 1,
        lecture=lecture,
    )
    if not lecture:
        st.markdown(stepper.facts(entry, overview, index))
        with st.expander("How to read this"):
            how_to_read(view, overview, where.step)
        if analysed is None:
            without_analysis(entry)
    DRAWN[where.step](view)
    if not lecture:
        example.follow(entry, palette, report.name)


def without_analysis(entry: runs.Entry) -> None:
    """Draw the progress of the analysis, or the command that adds it."""
    if not methods.goes_level_by_level(entry):
        widgets.why(
            f"{methods.why_no_analysis(entry)}, so it has no analysis. Only methods that fit each level have "
            "other scores' groupings, accuracies after each level, and targets."
        )
        return
    if entry.analysing:
        works.follow(lambda: entry.analysing, entry.folder, "cancel-analysis", "analysis")
        return
    works.ended(str(notes_of(entry.folder).get("state")), entry.folder, "nothing of the analysis is kept")
    widgets.why(
        "This run has no analysis. Other scores' groupings, the accuracy after each level and targets are computed once, in "
        f"about the time of the fusion, by this command, {runs.where(entry)}:"
    )
    st.code(f"retrofit fuse --record {works.record_of(entry)} --analyse", language="bash", wrap_lines=True)
