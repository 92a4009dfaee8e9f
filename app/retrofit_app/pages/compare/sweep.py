"""One setting of a run at several values: the form, the worker, and the curve as it grows."""

import shlex
from collections.abc import Mapping
from typing import Any

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import Palette, claimed, escaped, percent
from retrofit_app.figures.sweep import beside, finding, measured, swept
from retrofit_app.runs import sweeps
from retrofit_app.runs.sweeps import SweepWork
from retrofit_app.shell import navigation
from retrofit_app.shell.picker import Choice
from retrofit_app.widgets import works
from retrofit_app.widgets.errors import guarded
from retrofit_core.runs.store import notes_of

from . import parameters, taking
from .parameters import COMPARE

CLICKED = "sweep-clicked"  # the run of a clicked point
READING = (
    "A bar is the 95 % interval of the difference from the best value, paired image by image: where it reaches the best point's "
    "height, the two may be equal. Click a point to open its run."
)
SEEDS = " Open marks are single seeds, which widen the intervals."
ONE = " Each value ran with one seed: how much another one changes it is unknown."


@st.fragment
@guarded
def sweep(choice: Choice, palette: Palette) -> None:
    """Draw the form, the work in progress, and the curve so far."""
    finished = {entry.name: entry for entry in choice.entries if entry.state == "done"}
    if not finished:
        widgets.why("A sweep takes the networks and settings of a finished run, and there is none yet.")
        return
    first = choice.entry.name if choice.entry.name in finished else next(iter(finished))
    entry = finished[parameters.swept_run(list(finished), first)]
    settings = sweeps.settings_of(entry)
    asked = parameters.swept(list(settings))
    _form(finished, settings)
    try:
        work = sweeps.sweep(entry, asked.over, asked.values, asked.seeds)
    except ValueError as error:
        widgets.why(f"Not a sweep yet: {error}")
        return
    if work.going:
        works.watch(lambda: work.going, lambda: _growing(work, palette))
        return
    works.ended(work.state, work.folder, "finished runs are kept")
    if work.state != "done" and st.button(
        "Start" if work.state == "new" else "Continue",
        key="start-sweep",
        type="primary",
        icon=":material/play_arrow:",
        help=f"{len(work.asked.values) * work.asked.seeds} runs, of which finished ones are not repeated. They are one entry of "
        "*Your runs* on Fuse.",
    ):
        works.start(lambda: sweeps.start(work, choice.entries))
    _results(work, palette)


def _form(finished: Mapping[str, runs.Entry], settings: Mapping[str, Any]) -> None:
    labels = runs.labels(list(finished.values()))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.selectbox(
            "Run",
            list(finished),
            **COMPARE.control("of"),
            format_func=labels.__getitem__,
            width=290,
            help="All other settings, the networks and the method are those of this run.",
        )
        st.selectbox(
            "Setting",
            list(settings),
            **COMPARE.control("over", change=lambda over: COMPARE.change(over=over, values=sweeps.USUAL.get(over, ""))),
            format_func=lambda name: settings[name].title or name.replace("_", " "),
            width=170,
            help="Any numeric setting of the method.",
        )
        st.text_input(
            "Three to nine values",
            **COMPARE.control("values"),
            width=210,
            help=f"Separated by commas. {settings[COMPARE.current('over')].help.rstrip('.')}.",
        )
        st.number_input(
            "Seeds", 1, parameters.MOST_SEEDS, **COMPARE.control("seeds"), width=90, help="Runs of each value."
        )


def _growing(work: SweepWork, palette: Palette) -> None:
    notes = notes_of(work.folder)
    done, total = len(work.curve["rows"]), len(work.asked.values)
    words = f"{done} of {total} values are measured · {notes.get('name', 'starting')}".rstrip(": ")
    stops = "Stops after the current step. Finished runs are kept, and you can continue later."
    works.progress(work.folder, done / total, words, stops, "cancel-sweep")
    if measured(work.curve):
        works.growing("sweep", swept(work.curve, palette), claimed(finding(work.curve)), caption=False)


def _results(work: SweepWork, palette: Palette) -> None:
    """Draw the curve with its menu, and why values have no network."""
    curve = work.curve
    if measured(curve):

        def point_at() -> None:
            points = st.session_state["sweep"]["selection"]["points"]
            if points and "customdata" in points[0]:
                st.session_state[CLICKED] = points[0]["customdata"][0]

        if run := st.session_state.pop(CLICKED, None):
            navigation.go("fuse", run=run)

        words = ", ".join(f"{name} {percent(accuracy)}" for name, accuracy in beside(curve).items())
        widgets.chart(
            "sweep",
            lambda colours: swept(curve, colours),
            palette,
            _origin(work),
            heading=claimed(finding(curve)),
            below=escaped(f"Beside it: {words}."),
            reading=READING + (SEEDS if curve["seeds"] > 1 else ONE),
            on_select=point_at,
            selection_mode="points",
        )
    for row in curve["rows"]:
        if row["reason"] is not None:
            st.caption(escaped(f"{curve['over']} {row['value']}: {row['reason']}"))
    taking.copy(_origin(work), "this sweep", "sweep")


def _origin(work: SweepWork) -> widgets.Several:
    """The sweep as the origin of its picture."""

    def texts() -> tuple[str, str]:
        from retrofit_core.runs import snippets

        return shlex.join(["retrofit", work.kind.command, *work.words_to_make]), snippets.sweep_python(work.asked)

    source = f"Sweep {work.name} of run {work.of.name}; retrofit-workbench {runs.library()}"
    return widgets.Several(f"sweep-{work.asked.over}-{work.of.name}", source, texts)
