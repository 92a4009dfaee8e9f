"""A lecture's slides on a finished run: its networks, what each ingredient contributes, what is lost where, fine-tuning."""

from dataclasses import replace

import streamlit as st

from retrofit_app import figures, runs, widgets
from retrofit_app.figures import Palette, Tile, escaped
from retrofit_app.runs import headline, ingredients
from retrofit_app.shell.lectures import HIDDEN, Slide
from retrofit_app.widgets import pictures, readings
from retrofit_core.runs.store import Work

#: Heights in px of ingredients and levels on a page of 1280 x 720; they grow with the window.
INGREDIENTS, STRIP = 520, 480


def slides(entry: runs.Entry, palette: Palette, tuned: Work | None) -> list[Slide]:
    """The slides that the run has numbers for; none if nothing was measured.

    Args:
        tuned: the shown fine-tuning.
    """
    if not entry.metrics.get("networks") or not entry.metrics.get("classes"):
        return []
    each = [_networks(entry, palette, tuned), _ingredients(entry, palette), _lost(entry, palette)]
    return [slide for slide in each if slide is not None]


def _networks(entry: runs.Entry, palette: Palette, tuned: Work | None) -> Slide:
    rows = headline.rows(entry, runs.class_counts(entry), tuned)
    answers = [tile for row in rows for tile in row if tile.role != "parent"]

    def draw(shown: int, _: float) -> None:
        hidden = {id(tile) for tile in answers[shown:]}
        masked = [[_masked(tile) if id(tile) in hidden else tile for tile in row] for row in rows]
        st.html(figures.tiles(masked, entry.metrics["classes"], palette))

    return Slide(
        "networks",
        "How many test images does each of these get right?",
        headline.finding(entry).replace("**", ""),
        len(answers),
        draw,
    )


def _masked(tile: Tile) -> Tile:
    """A tile that hides its answer."""
    return replace(tile, value=HIDDEN, interval="", per_class=(), seen=())


def _ingredients(entry: runs.Entry, palette: Palette) -> Slide | None:
    if not ingredients.has_some(entry) or ingredients.work_of(entry).state != "done":
        return None
    try:
        return _chart(entry, palette, "ingredients", pictures.CHARTS["ingredients"].question, INGREDIENTS)
    except ValueError:  # the page says what is damaged
        return None


def _lost(entry: runs.Entry, palette: Palette) -> Slide | None:
    try:
        overview = readings.overview(entry)
        question = f"The networks have {len(overview.table)} levels. Is accuracy lost at any level?"
        return None if overview.table.empty else _chart(entry, palette, "levels", question, STRIP, overview.worst)
    except (OSError, ValueError):  # no levels, or the page says what is damaged
        return None


def _chart(entry: runs.Entry, palette: Palette, name: str, question: str, height: int, level: int = 0) -> Slide:
    """A slide that reveals one of the charts of a run."""

    def draw(shown: int, ratio: float) -> None:
        if shown:
            large = (round(height * ratio), ratio)
            picture = pictures.picture(entry, name, palette, level, large=large)
            widgets.chart(f"lecture-{name}", picture, entry, bare=True)

    return Slide(name, question, escaped(pictures.picture(entry, name, palette, level).caption), 1, draw)
