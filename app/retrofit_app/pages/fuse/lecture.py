"""A lecture's slides on a finished run: its networks, what each ingredient contributes, what is lost where, fine-tuning."""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from retrofit_app import figures, runs, widgets
from retrofit_app.figures import Palette, Tile, escaped, percent
from retrofit_app.figures.waterfall import Step, waterfall
from retrofit_app.figures.words import first_up, signed
from retrofit_app.runs import headline, ingredients
from retrofit_app.runs.ingredients import finding, steps_of, table
from retrofit_app.shell.lectures import HIDDEN, Slide
from retrofit_app.widgets import pictures, readings
from retrofit_core.runs.store import Work

from . import equal_budget

#: Heights in px of waterfall and drawn network on a page of 1280 x 720; they grow with the window.
WATERFALL, STRIP = 520, 480


def slides(entry: runs.Entry, palette: Palette, tuned: Work | None) -> list[Slide]:
    """The slides that the run has numbers for; none if nothing was measured.

    Args:
        tuned: the shown fine-tuning.
    """
    if not entry.metrics.get("networks") or not entry.metrics.get("classes"):
        return []
    each = [_networks(entry, palette, tuned), _ingredients(entry, palette), _lost(entry, palette)]
    return [slide for slide in (*each, _tuned(entry, palette, tuned)) if slide is not None]


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
        "The columns show which classes a network knows. Let the audience guess before each tile. The plain average comes first: "
        "most expect it between its parents. The ensemble is what one would like to have, but it runs all networks.",
        len(answers),
        draw,
    )


def _masked(tile: Tile) -> Tile:
    """A tile that hides its answer."""
    return replace(tile, value=HIDDEN, interval="", per_class=(), seen=())


def _ingredients(entry: runs.Entry, palette: Palette) -> Slide | None:
    work = ingredients.work_of(entry)
    if not ingredients.has_some(entry) or work.state != "done":
        return None
    try:
        steps: Sequence[Step] = steps_of(ingredients.read(work), entry.config["method"])
    except ValueError:  # the page says what is damaged
        return None

    def draw(shown: int, ratio: float) -> None:
        widgets.chart(
            "lecture-ingredients",
            lambda colours: figures.enlarged(
                waterfall(steps, "", colours, shown=1 + shown), round(WATERFALL * ratio), ratio
            ),
            palette,
            lambda: table(list(steps)),
            entry,
            heading="",
            below="",
            bare=True,
        )

    return Slide(
        "ingredients",
        "What does each ingredient bring?",
        escaped(finding(list(steps))),
        "One row after the other: first groups without any fit, then the fit. Before the hatched controls, ask whether the "
        "groups matter at all once there is a fit. Random groups with the same fit show how much the fit alone explains.",
        len(steps) - 1,
        draw,
    )


def _lost(entry: runs.Entry, palette: Palette) -> Slide | None:
    try:
        overview = readings.overview(entry)
        if overview.table.empty:
            return None
        caption = pictures.picture(entry, "strip", palette, overview.worst).caption
    except (OSError, ValueError):  # no levels, or the page says what is damaged
        return None

    def draw(shown: int, ratio: float) -> None:
        if shown:
            large = (round(STRIP * ratio), ratio)
            widgets.chart(
                "lecture-strip",
                lambda colours: pictures.picture(entry, "strip", colours, overview.worst, large=large),
                palette,
                lambda: overview.table,
                entry,
                heading="",
                below="",
                bare=True,
            )

    return Slide(
        "levels",
        f"The networks have {len(overview.table)} levels. Is accuracy lost at any level?",
        escaped(caption),
        "Blocks: the wider the level, the higher, the networks on a smaller scale; the stronger the colour, the larger its "
        "error. The line above is the accuracy after each level: the left end is the ensemble, the right end the fused network. "
        "The page Levels continues from here.",
        1,
        draw,
    )


def _tuned(entry: runs.Entry, palette: Palette, tuned: Work | None) -> Slide | None:
    try:
        rows = [] if tuned is None else equal_budget.trained(entry, tuned)
    except ValueError:  # the page says what is damaged
        return None
    if len(rows) < 2:
        return None
    tiles = [
        Tile(
            first_up(row.words.removeprefix("the ")),
            percent(row.after["accuracy"]),
            figures.interval(row.after["accuracy"], row.after["samples"]),
            f"before {percent(row.before['accuracy'])}, {signed(row.after['accuracy'] - row.before['accuracy'])}"
            if row.before
            else "began with random weights",
            "fused" if row.name == equal_budget.FUSED else "reference",
            row.after["per_class"],
        )
        for row in reversed(rows)  # the fused network last
    ]

    def draw(shown: int, _: float) -> None:
        masked = [tile if index < shown else _masked(replace(tile, note="")) for index, tile in enumerate(tiles)]
        st.html(figures.tiles([masked], entry.metrics["classes"], palette))

    return Slide(
        "fine-tuning",
        "All get the same training on all images. Which start is the best?",
        equal_budget.finding(rows).replace("**", ""),
        "Equal budget: the same images, epochs and settings. Ask whether the fusion was worth it if training follows anyway. A "
        "new network and network A alone are the honest comparison.",
        len(tiles),
        draw,
    )
