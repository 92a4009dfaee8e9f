"""What each ingredient contributes: a 2 x 2 of groups and fit; measured on request."""

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import Palette, claimed, escaped
from retrofit_app.runs import ingredients
from retrofit_app.shell import navigation
from retrofit_app.widgets import pictures, works
from retrofit_app.widgets.errors import guarded
from retrofit_core.runs.store import Work, notes_of


@st.fragment
@guarded
def section(entry: runs.Entry, palette: Palette) -> None:
    """Draw the picture, its measurement in progress, or the button to start that; nothing if there are no ingredients."""
    if not ingredients.has_some(entry):
        return
    st.header(pictures.CHARTS["ingredients"].question, anchor=False)
    work = ingredients.work_of(entry)
    if work.state == "done":
        draw_measured(entry, palette)
    elif work.going:
        works.watch(lambda: work.going, lambda: growing(work))
    else:
        ask(entry, work)
    navigation.link(
        "learn",
        "How does this work?",
        "The page Learn: averaging, groups and the fit on networks of a few neurons.",
        at="step=4",
    )


def draw_measured(entry: runs.Entry, palette: Palette) -> None:
    """Draw the picture under its finding."""
    try:
        claim = pictures.picture(entry, "ingredients", palette).caption
    except ValueError as error:
        st.error(f"The ingredients are not shown: {escaped(error)}")
        return
    widgets.chart(
        "ingredients",
        lambda colours: pictures.picture(entry, "ingredients", colours),
        palette,
        entry,
        heading=claimed(claim),
        below="",
        reading=ingredients.READING,
    )


# --- measuring ------------------------------------------------------------------------------------


def ask(entry: runs.Entry, work: Work) -> None:
    """Draw why there is nothing yet, and the button that measures it."""
    works.ended(work.state, work.folder, "not everything was measured")
    if st.button(
        "Measure it (three more fusions, and the average)",
        key="start-ingredients",
        icon=":material/play_arrow:",
        help="Fuses with this run's groups but no fit, and with random groups, without and with the fit.",
    ):
        works.start(lambda: ingredients.begin(entry))


def growing(work: Work) -> None:
    """Draw the progress."""
    notes = notes_of(work.folder)
    works.progress(
        work.folder,
        min((notes.get("index") or 0) / (notes.get("total") or 1), 1.0),
        f"{str(notes.get('name', 'starting')).rstrip(':').capitalize()}…",
        "Stops after the current step.",
        "cancel-ingredients",
    )
