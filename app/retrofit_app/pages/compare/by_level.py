"""Level by level: two runs, one above the other, with levels matched by name."""

from collections.abc import Sequence

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import Palette, escaped
from retrofit_app.figures.matched import Strip, matched_levels, matched_names
from retrofit_app.runs import compared
from retrofit_app.widgets import readings

from . import parameters
from .parameters import COMPARE


def by_level(entries: Sequence[runs.Entry], palette: Palette, origin: widgets.Several) -> None:
    """Draw the levels of two compared runs."""
    if len(entries) < 2:
        return
    st.header("Where do they lose it?", anchor=False)
    by_name = {entry.name: entry for entry in entries}
    names = list(by_name)
    upper, lower = parameters.pair("upper", "lower", names, (names[0], names[1]), "run of this comparison")
    if len(names) > 2:
        with st.container(horizontal=True):
            for name, label in (("upper", "Above"), ("lower", "Below")):
                st.selectbox(
                    label,
                    names,
                    **COMPARE.control(name),
                    format_func=lambda each: f"{compared.title(by_name[each])} ({each})",
                    width=330,
                    help="One of the compared runs.",
                )
    if upper == lower:
        widgets.why("You have chosen the same run twice. Choose another one.")
        return
    try:
        strips = _strips(by_name[upper], by_name[lower])
    except ValueError as error:
        widgets.why(f"There are no levels to match: {error}")
        return
    first, second = strips
    widgets.chart(
        "matched-levels",
        lambda colours: matched_levels(first, second, colours),
        palette,
        origin,
        heading="**Errors of each level**, in per cent of the neurons’ energy",
    )
    st.caption(
        escaped(f"Levels: {', '.join(f'{index + 1} {name}' for index, name in enumerate(_names(first, second)))}.")
    )


def _strips(first: runs.Entry, second: runs.Entry) -> tuple[Strip, Strip]:
    """Both runs' levels.

    Raises:
        ValueError: one has none, or its record is damaged.
    """
    weighed = not compared.shared_importance((first, second))
    titles = [compared.title(entry, weighed) for entry in (first, second)]
    strips = []
    for entry, title in zip((first, second), titles, strict=True):
        overview = readings.overview(entry)
        if overview.table.empty:
            raise ValueError(f"{title} (run {entry.name}) does not go level by level.")
        name = title if titles[0] != titles[1] else f"{title} ({entry.name})"
        strips.append(Strip(name, overview.table, overview.accuracy))
    return strips[0], strips[1]


def _names(first: Strip, second: Strip) -> list[str]:
    return matched_names(list(first.table["level"]), list(second.table["level"]))
