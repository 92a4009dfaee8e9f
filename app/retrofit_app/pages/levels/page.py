"""Where along the levels is knowledge lost, and what happens inside one level?"""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.address import session
from retrofit_app.address.neurons import picks_field
from retrofit_app.address.rule import Field, option
from retrofit_app.figures import Palette, biggest_drop, fitted, percent
from retrofit_app.shell.errors import guarded
from retrofit_app.shell.style import stylesheet
from retrofit_app.widgets import copies, pictures, readings
from retrofit_app.widgets.readings import Overview

from . import analysing
from .panels import PANELS, pairs
from .steps import STEPS
from .view import View

MOVES = ("first", "previous", "next", "last")
KEYS = {"first": "Home", "previous": "K", "next": "J", "last": "End"}
STRIP = 204  # px, the height of the strip in a lecture, and 720 less all that is above the pictures is theirs
ICONS = {
    "first": ":material/first_page:",
    "previous": ":material/chevron_left:",
    "next": ":material/chevron_right:",
    "last": ":material/last_page:",
}


def page() -> None:
    """The strip of all levels, the stepper, and one level's steps."""
    entry, palette = st.session_state.entry, widgets.palette()
    with st.container(key="heading"):
        st.title("Where is knowledge lost?", anchor=False)
    if not (entry.folder / "levels.parquet").exists():
        empty(entry)
        return
    overview = readings.overview(entry)  # without torch: the strip is on the page before it is loaded
    if overview.table.empty:
        empty(entry)
        return
    shortcuts()
    body(entry, palette)


@st.fragment
@guarded
def body(entry: runs.Entry, palette: Palette) -> None:
    """All but the sidebar: another level or step runs and sends only this."""
    overview = readings.overview(entry)
    names = list(overview.table["level"])
    default = names[default_level(overview)]
    session.sync(
        [
            level_field(names, default),
            option("step", list(STEPS), "grouping", "step"),
            option("lecture", ["", "1"], "", "lecture mode (1)"),
        ]
    )
    index = names.index(st.session_state.level)
    if st.session_state.lecture:
        st.html(stylesheet("lecture"))
        stepper(overview, names, index, lecture=True)
        strip(entry, overview, palette, index, names, lecture=True)
        level(entry, palette, index, lecture=True)
        return
    strip(entry, overview, palette, index, names)
    stepper(overview, names, index)
    level(entry, palette, index)
    st.divider()
    everything(entry, overview, palette, index)


def level_field(names: Sequence[str], default: str) -> Field:
    """A level by its name or its number."""

    def read(text: str) -> str | None:
        numbers = {str(number): name for number, name in enumerate(names, 1)}
        return text if text in names else numbers.get(text)

    return Field("level", default, read, "level of this run")


def default_level(overview: Overview) -> int:
    """Where most accuracy is lost, or else the largest error; the head only if nothing else is left."""
    body = max(len(overview.table) - 1, 1)
    if overview.measured:
        return biggest_drop(overview.accuracy[: body + 1])[0]
    total = overview.table["grouping share"] + overview.table["approximation share"]
    return int(total.iloc[:body].to_numpy().argmax())


def empty(entry: runs.Entry) -> None:
    """A run without levels: not started, going on, stopped before its first level, or a method without levels."""
    method = entry.config.get("method", "")
    if entry.active:
        why = "This run has not finished its first level yet. Its levels appear here one by one; reload the page in a moment."
    elif entry.state == "done":
        why = f"{method} does not work level by level, so there is nothing to step through."
    else:
        why = "This run ended before its first level was finished. Fuse offers to go on with it."
    widgets.why([why, "Choose another run on the left to see its levels."])


# --- all levels -----------------------------------------------------------------------------------


def strip(
    entry: runs.Entry, overview: Overview, palette: Palette, index: int, names: Sequence[str], lecture: bool = False
) -> None:
    """Errors and accuracy of all levels; a click on a level goes there."""
    heading = "" if lecture else f"**{pictures.picture(entry, 'strip', palette, index).caption}**"
    large = {"large": STRIP} if lecture else {}
    if entry.state != "done":
        total = entry.status.get("levels") or "?"
        st.caption(f"Not finished: the first {len(names)} of {total} levels are ready and shown.")

    def go() -> None:
        points = st.session_state.strip["selection"]["points"]
        if points:
            # Bars, line and the marks over them all stand at "3" or "3 · name".
            session.change(level=names[int(str(points[0]["x"]).split()[0]) - 1])

    widgets.chart(
        "strip",
        lambda colours: pictures.picture(entry, "strip", colours, index, **large),
        palette,
        lambda: overview_table(overview),
        entry,
        heading=heading,
        below="",
        bare=lecture,
        on_select=go,
        selection_mode="points",
    )


def overview_table(overview: Overview) -> Any:
    """The strip's numbers."""
    shown = overview.table[["level", "widths", "fused", "kind", "form"]].copy()
    shown.insert(0, "number", range(1, len(shown) + 1))
    shown["grouping %"] = (100 * overview.table["grouping share"]).round(3)
    shown["approximation %"] = (100 * overview.table["approximation share"]).round(3)
    if overview.measured:
        shown["accuracy after %"] = [round(value, 2) for value in overview.accuracy[1:]]
    return shown


def shortcuts() -> None:
    """The switch for keys, and the way into a lecture, in the sidebar: a fragment cannot write there."""
    st.session_state.setdefault("shortcuts", True)
    with st.sidebar:
        # In a lecture the sidebar is hidden, and this button's key still works: it leads out again.
        st.button(
            "Lecture mode",
            key="go-lecture",
            icon=":material/present_to_all:",
            width="stretch",
            on_click=toggle_lecture,
            shortcut="L" if st.session_state.shortcuts else None,
            help="For a projector: larger type, only the strip, the stepper and the pictures of one step. Key L leads in and "
            "out. The address says so, too: such a link opens exactly there.",
        )
        st.toggle(
            "Keyboard shortcuts",
            key="shortcuts",
            persist_state="session",
            help="J and K: next and previous level. Home and End: first and last. Switch off if in your way.",
        )


def toggle_lecture() -> None:
    """Into the lecture mode, or out of it."""
    session.change(lecture="" if st.session_state.lecture else "1")


def stepper(overview: Overview, names: Sequence[str], index: int, lecture: bool = False) -> None:
    """Buttons, a list of levels, and what this level is."""

    def target(to: str, start: int) -> int:
        last = len(names) - 1
        return {"first": 0, "previous": max(start - 1, 0), "next": min(start + 1, last), "last": last}[to]

    def move(to: str) -> None:
        # From the address, not from the list: the second of two quick presses starts where the first one went.
        start = names.index(session.current("level")) if session.current("level") in names else 0
        session.change(level=names[target(to, start)])

    with st.container(
        horizontal=True, vertical_alignment="center" if lecture else "bottom", gap="xsmall", key="stepper"
    ):
        for to in MOVES[1:3] if lecture else MOVES:
            st.button(
                to.capitalize(),
                icon=ICONS[to],
                key=f"go-{to}",
                on_click=move,
                args=(to,),
                disabled=target(to, index) == index,
                shortcut=KEYS[to] if st.session_state.shortcuts else None,
                help=f"Go to the {to} level" + (f" (key {KEYS[to]})." if st.session_state.shortcuts else "."),
            )
        st.selectbox(
            "Level",
            names,
            key="level",
            on_change=session.changed,
            args=("level",),
            width=170 if not lecture else 210,
            label_visibility="collapsed" if lecture else "visible",
            format_func=lambda name: f"{names.index(name) + 1} of {len(names)} · {name}",
            help="From the input up. Each level is one layer with the functions without weights before it.",
        )
        st.segmented_control(
            "Step",
            list(STEPS),
            key="step",
            on_change=session.changed,
            args=("step",),
            required=True,
            format_func=lambda name: f"{list(STEPS).index(name) + 1} {name}",
            label_visibility="collapsed" if lecture else "visible",
            help="What happens inside a level, in order: neurons respond, get an importance, are grouped, each group gets a "
            "target, and the fused neuron is fitted to it.",
        )
        if lecture:
            keys = " · L" if st.session_state.shortcuts else ""
            st.button(
                f"Leave{keys}",
                key="go-page",
                icon=":material/close:",
                on_click=toggle_lecture,
                help="Back to the whole page.",
            )
    row = overview.table.iloc[index]
    facts = [
        f"{row['kind']}, {row['widths'].replace(' ', chr(160))} → **{row['fused']}** neurons",
        f"grouping error {percent(100 * row['grouping share'])}",
    ]
    if row["form"] != "aligned":
        facts.append(f"approximation error {percent(100 * row['approximation share'])}")
    if overview.measured:
        facts.append(f"accuracy {percent(overview.accuracy[index])} → {percent(overview.accuracy[index + 1])}")
    st.markdown(f"Level {index + 1}, `{row['level']}`: " + " · ".join(facts))


# --- one level ------------------------------------------------------------------------------------


def level(entry: runs.Entry, palette: Palette, index: int, lecture: bool = False) -> None:
    """The chosen step. Everything from here on needs the whole record, and torch to read it."""
    try:
        run, analysis = readings.record(entry), readings.analysis(entry)
    except ValueError as error:
        st.error(f"This run's levels are not shown: {str(error).replace(str(entry.folder), entry.name)}")
        return
    readings.prepare(entry)
    report, level_analysis = (
        run.levels[index],
        analysis.levels[index] if analysis is not None and index < len(analysis.levels) else None,
    )
    scores = list(level_analysis.labels) if level_analysis is not None else [run.config.importance]
    seeds = (
        [str(seed) for seed in range(max(len(rows) for rows in level_analysis.labels.values()))]
        if level_analysis is not None
        else ["0"]
    )
    fused = [str(neuron) for neuron in range(report.width)]
    first = run.config.importance if run.config.importance in scores else scores[0]
    densest = readings.grouping(entry, index).densest
    view = View(
        entry,
        palette,
        index,
        report,
        level_analysis,
        scores,
        analysis.missing if analysis is not None else {},
        last=entry.state == "done" and index == len(run.levels) - 1,
        lecture=lecture,
    )
    session.sync(
        [
            option("score", scores, first, "importance score of this run"),
            option("seed", seeds, "0", "seed of the grouping"),
            option("neuron", fused, str(densest or 0), "fused neuron of this level"),
            option("panel", list(PANELS), "scores", "closer look"),
            option("pair", ["", *pairs(view)], "", "pair of scores"),
            option("outliers", ["", "1"], "", "frame with outliers (1)"),
            *pick_fields(len(report.widths)),
        ]
    )
    clusters = [str(cluster) for cluster, count in enumerate(view.grouping().counts.tolist()) if count]
    largest = view.grouping().densest
    session.sync(
        [option("cluster", clusters, clusters[0] if largest is None else str(largest), "cluster of this level")]
    )
    if level_analysis is None and not lecture:
        analysing.panel(entry)
    STEPS[st.session_state.step](view)


def pick_fields(parents: int) -> list[Field]:
    """Neurons that stay bright, and neurons with a ring."""
    pick = picks_field(parents)
    return [pick, Field("mark", "", pick.read, pick.what)]


# --- take away ------------------------------------------------------------------------------------


def everything(entry: runs.Entry, overview: Overview, palette: Palette, index: int) -> None:
    """Grouping against approximation over all levels, and downloads."""
    left, right = st.columns(2, gap="large")
    if not fitted(overview.table):
        right = st.container()  # one kind of error alone: the strip shows it
    else:
        with left:
            widgets.chart(
                "errors",
                lambda colours: pictures.picture(entry, "errors", colours, index),
                palette,
                lambda: overview_table(overview),
                entry,
                heading="**All levels: which of the two errors?**",
            )
    with right:
        st.markdown("**Take it with you**")
        st.markdown("A link to exactly this view:")
        st.code(session.link(), language=None, wrap_lines=True)
        st.download_button(
            "Report of all levels (CSV)",
            lambda: widgets.csv(readings.report(overview), entry),
            f"{entry.name}-levels.csv",
            "text/csv",
            on_click="ignore",
            icon=":material/download:",
            help="Widths, errors (and their shares of the importance-weighted energy), ridge, form of fit, accuracy after it, "
            "and seconds of every level.",
        )
        copies.of_run(entry)
