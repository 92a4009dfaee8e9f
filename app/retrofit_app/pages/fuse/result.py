"""A finished run: its finding, its ingredients, what was lost where, what the networks saw, and what can be taken from it."""

import streamlit as st

from retrofit_app import figures, runs, share, widgets
from retrofit_app.figures import Palette, escaped
from retrofit_app.figures.picture import LECTURE
from retrofit_app.runs import headline, ingredients
from retrofit_app.runs.levels import strip_words
from retrofit_app.shell import navigation
from retrofit_app.widgets import copies, example, pictures, readings, works
from retrofit_app.widgets.errors import guarded
from retrofit_core.runs.store import Work
from retrofit_core.system.files import json_of


def summary(entry: runs.Entry, palette: Palette, tuned: Work | None = None) -> None:
    """Draw title, tiles, and the finding in a sentence.

    Args:
        tuned: the fine-tuning whose network also gets a tile, once it exists.
    """
    networks, classes = entry.metrics.get("networks"), entry.metrics.get("classes")
    if not networks or not classes:
        st.title(headline.networks_title(len(entry.config["models"])), anchor=False)
        st.markdown(
            f"{escaped(entry.config['method'])}. No accuracies were measured; `retrofit fuse … --evaluate --record` does it."
        )
        return
    counts = runs.class_counts(entry)
    shown = headline.rows(entry, counts, tuned)
    st.title(headline.title(entry, counts), anchor=False)
    st.html(figures.tiles(shown, classes, palette))
    guesses = any(any(tile.guessed) for row in shown for tile in row)
    st.markdown(headline.finding(entry), help=headline.reading(entry, guesses))
    if sentence := headline.shortfall(entry, counts):
        st.warning(sentence, icon=":material/trending_down:")


@st.fragment
@guarded
def taken_apart(entry: runs.Entry, palette: Palette) -> None:
    """Draw the picture, its measurement in progress, or the button to start that; nothing if there are no ingredients."""
    if not ingredients.has_some(entry):
        return
    st.header(pictures.CHARTS["ingredients"].question, anchor=False)
    work = ingredients.work_of(entry)
    if work.state == "done":
        draw_measured(entry, palette)
    elif work.going:
        works.follow(lambda: work.going, work.folder, "cancel-ingredients", "work")
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
        picture = pictures.picture(entry, "ingredients", palette)
    except ValueError as error:
        st.error(f"The ingredients are not shown: {escaped(error)}")
        return
    widgets.chart("ingredients", picture, entry, reading=ingredients.READING)


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


#: The strip's height in px, and its lettering as everywhere else.
STRIP = (230, 1 / LECTURE)


@st.fragment
@guarded
def lost(entry: runs.Entry, palette: Palette) -> None:
    """Draw the strip over all levels, and a link to the worst one; the loss of a method that only trains a network."""
    try:
        overview = readings.overview(entry)
        if overview.table.empty:
            trained(entry, palette)
            return
        st.header(pictures.CHARTS["levels"].question, anchor=False)
        worst = overview.worst
        strip = pictures.picture(entry, "levels", palette, worst, large=STRIP)
    except ValueError as error:
        st.error(f"This run's levels are not shown: {escaped(runs.without_folders(error, entry.folder))}")
        return
    name = str(overview.table["level"][worst])
    widgets.chart("fuse-strip", strip, entry, reading=escaped(strip_words(entry, overview)))
    navigation.link(
        "levels",
        step_words(worst, name, strip.caption),
        "The page Levels: activations, importance, grouping, targets and fit of every level.",
        level=name,
    )


def step_words(level: int, name: str, claim: str) -> str:
    """The link to a level (from 0), with the reason if the claim above it does not name the level."""
    return f"Step into level {level + 1}, {name}{'' if f'({name})' in claim else ': the largest error'}"


def trained(entry: runs.Entry, palette: Palette) -> None:
    """Draw the loss curve of a method that trains a network."""
    try:
        facts = json_of(entry.folder / "result.json")["config"]
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"result.json cannot be read ({type(error).__name__}).") from error
    curve = facts.get("curve")
    if curve:
        widgets.chart("fuse-curve", figures.loss_curve(curve, palette), entry, heading="**How did the training go?**")


def seen(entry: runs.Entry) -> None:
    """Draw how many training images of each class each network saw, if that is known."""
    counts, classes = runs.class_counts(entry), entry.metrics.get("classes")
    if counts and classes:
        st.header("What each network saw", anchor=False)
        widgets.split(counts, classes)
        st.caption("Training images of each class.")


@st.fragment
@guarded
def followed(entry: runs.Entry, palette: Palette) -> None:
    """Draw one image's way through all networks, on request."""
    example.relink()
    example.follow(entry, palette)


def downloads(entry: runs.Entry) -> None:
    """Draw the downloads."""
    st.header("Take it with you", anchor=False)
    name = f"{entry.name}-{entry.config['method'].lower()}"
    with st.container(horizontal=True):
        st.download_button(
            "Page to send",
            lambda: share.page(entry),
            f"{name}-run.html",
            key="get-page",
            on_click="ignore",
            icon=":material/download:",
            help="This run as one HTML file: it opens in any browser without the workbench or a connection, and its figures are "
            "interactive (5 MB).",
        )
        st.download_button(
            "Network",
            lambda: (entry.folder / "fused.safetensors").read_bytes(),
            f"{name}-fused.safetensors",
            key="get-network",
            on_click="ignore",
            icon=":material/download:",
            help="The checkpoint with its configuration, classes and normalisation.",
        )
    copies.show(lambda: copies.of_entry(entry), "the shown run", runs.where(entry))
