"""What each ingredient contributes: a waterfall from plain average over groups to fit, with controls; measured on request."""

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import Palette, claimed, escaped
from retrofit_app.figures.waterfall import waterfall
from retrofit_app.runs import ingredients
from retrofit_app.runs.ingredients import finding, steps_of
from retrofit_app.shell import navigation
from retrofit_app.widgets import works
from retrofit_app.widgets.errors import guarded
from retrofit_core.runs.store import Work, notes_of

#: Fusions that it needs besides the run's own; one more without importance.
FUSIONS = 5


@st.fragment
@guarded
def brought(entry: runs.Entry, palette: Palette) -> None:
    """Draw the waterfall, its measurement in progress, or the button to start that; nothing if there are no ingredients."""
    if not ingredients.has_some(entry):
        return
    st.header("What does each ingredient bring?", anchor=False)
    work = ingredients.work_of(entry)
    if work.state == "done":
        draw_measured(entry, work, palette)
    elif work.going:
        works.watch(lambda: work.going, lambda: growing(work, entry.config["method"], palette))
    else:
        ask(entry, work)
    navigation.link(
        "learn",
        "How does this work?",
        "The page Learn: averaging, groups and the fit on networks of a few neurons.",
        at="step=4",
    )


def draw_measured(entry: runs.Entry, work: Work, palette: Palette) -> None:
    """Draw the picture and its caption."""
    try:
        steps = steps_of(ingredients.read(work), entry.config["method"])
    except ValueError as error:
        st.error(f"The ingredients are not shown: {escaped(error)}")
        return
    widgets.chart(
        "ingredients",
        lambda colours: waterfall(steps, finding(steps), colours),
        palette,
        entry,
        heading=claimed(finding(steps)),
        below="",
        reading=ingredients.READING,
    )


# --- measuring ------------------------------------------------------------------------------------


def ask(entry: runs.Entry, work: Work) -> None:
    """Draw why there is nothing yet, and the button that measures it."""
    works.ended(work.state, work.folder, "not everything was measured")
    weighs = ingredients.weighs(entry.config.get("importance"))
    if st.button(
        f"Measure it (up to {FUSIONS + weighs} more fusions)",
        key="start-ingredients",
        icon=":material/play_arrow:",
        help="Fuses with this run's groups but no fit, and with controls: random and same-index groups"
        f"{', uniform importance' if weighs else ''}.",
    ):
        works.start(lambda: ingredients.begin(entry))


def growing(work: Work, method: str, palette: Palette) -> None:
    """Draw the progress, and what is measured so far."""
    notes = notes_of(work.folder)
    index, total = notes.get("index") or 0, notes.get("total") or 1
    share = min(index / total, 1.0)
    works.progress(
        work.folder,
        share,
        f"{str(notes.get('name', 'starting')).rstrip(':').capitalize()}…",
        "Stops after the current step.",
        "cancel-ingredients",
    )
    if work.has_content:
        try:
            steps = steps_of(ingredients.read(work), method)
        except ValueError:  # still being written
            return
        if steps:
            works.growing("ingredients", waterfall(steps, "", palette), "", caption=False)
