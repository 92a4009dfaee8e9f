"""Where something is lost: the strip over all levels, and a link to the worst one."""

import streamlit as st

from retrofit_app import figures, runs, widgets
from retrofit_app.figures import claimed, escaped
from retrofit_app.figures.picture import LECTURE
from retrofit_app.runs.levels import strip_words
from retrofit_app.shell import navigation
from retrofit_app.widgets import pictures, readings
from retrofit_app.widgets.errors import guarded
from retrofit_core.system.files import json_of

#: The strip's height in px, and its lettering as everywhere else.
STRIP = (230, 1 / LECTURE)


@st.fragment
@guarded
def lost(entry: runs.Entry, palette: figures.Palette) -> None:
    """Draw the strip over all levels, and a link to the worst one; the loss of a method that only trains a network."""
    try:
        overview = readings.overview(entry)
        if overview.table.empty:
            trained(entry, palette)
            return
        st.header("Where is something lost?", anchor=False)
        worst = overview.worst
        strip = pictures.picture(entry, "levels", palette, worst, large=STRIP)
    except ValueError as error:
        st.error(f"This run's levels are not shown: {escaped(runs.without_folders(error, entry.folder))}")
        return
    name, claim = overview.table["level"][worst], strip.caption
    widgets.chart(
        "fuse-strip",
        lambda colours: pictures.picture(entry, "levels", colours, worst, large=STRIP),
        palette,
        entry,
        heading=claimed(claim),
        below="",
        reading=escaped(strip_words(entry, overview)),
    )
    navigation.link(
        "levels",
        step_words(worst, str(name), claim),
        "The page Levels: activations, importance, grouping, targets and fit of every level.",
        level=str(name),
    )


def step_words(level: int, name: str, claim: str) -> str:
    """The link to a level (from 0), with the reason if the claim above it does not name the level."""
    return f"Step into level {level + 1}, {name}{'' if f'({name})' in claim else ': the largest error'}"


def trained(entry: runs.Entry, palette: figures.Palette) -> None:
    """Draw the loss curve of a method that trains a network."""
    try:
        facts = json_of(entry.folder / "result.json")["config"]
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"result.json cannot be read ({type(error).__name__}).") from error
    curve = facts.get("curve")
    if curve:
        widgets.chart(
            "fuse-curve",
            lambda colours: figures.loss_curve(curve, colours),
            palette,
            entry,
            heading="**How did the training go?**",
        )
