"""The menu of a picture or table: numbers, files, a link to the view, the run as a command."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from retrofit_app import runs
from retrofit_app.figures import LIGHT, Palette, Picture

from . import copies
from .downloads import Origin, Several, csv, file_stem, html
from .saver import saver


@dataclass(frozen=True)
class Item:
    """A menu's subject: a picture, or (without `draw`) a table; nothing is made before it opens."""

    key: str
    """The name of its files"""
    table: Callable[[], pd.DataFrame]
    """The numbers behind it"""
    draw: Callable[[Palette], Picture] | None = None
    heading: str = ""
    """Plain text, for the HTML file and the choice among several"""


def menu(
    key: str,
    table: Callable[[], pd.DataFrame],
    entry: Origin,
    draw: Callable[[Palette], Picture] | None = None,
    heading: str = "",
    level: str = "",
) -> None:
    """Draw the menu of one picture or table; see `Item`.

    Args:
        key: the picture's key.
        level: the name of the picture's level, for file names.
    """
    menu_of(key, [Item(key, table, draw, heading)], entry, level)


def menu_of(key: str, items: Sequence[Item], entry: Origin, level: str = "", canvas: bool = False) -> None:
    """Draw the menu of a picture or table, or of several pictures with a choice among them.

    Args:
        key: the chart's key.
        level: the name of the pictures' level, for file names.
        canvas: whether `neurons.pictures` draws the chart.
    """
    box = st.popover(
        "Table and files",
        icon=":material/more_horiz:",
        type="tertiary",
        key=f"menu-{key}",
        on_change="rerun",
        help="Its numbers as a table, files (CSV, SVG, PNG, HTML), a link to this view, and the run as a command.",
    )
    if not box.open:
        return
    with box:
        item = _chosen(key, items)
        stem, numbers = file_stem(entry.name, level, item.key), item.table()
        with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
            st.download_button(
                "CSV",
                lambda: csv(numbers, entry),
                f"{stem}.csv",
                "text/csv",
                on_click="ignore",
                key=f"{key}-csv",
                help="The table below, with its origin in the last line.",
            )
            if draw := item.draw:
                saver(key, stem, f"{key}-saver", item.key if canvas else "")
                st.download_button(
                    "HTML",
                    lambda: html(draw(LIGHT), item.heading, entry),
                    f"{stem}.html",
                    "text/html",
                    on_click="ignore",
                    key=f"{key}-html",
                    help="The picture as a page that opens without a connection (about 5 MB).",
                )
        makes = entry.what if isinstance(entry, Several) else f"Makes this run again, {runs.where(entry)}."
        (table,) = copies.tabs(copies.texts(entry), makes, link=True, first=["Table"])
        table.dataframe(
            numbers, hide_index=True, height=min(36 * len(numbers) + 40, 320), alt=f"The numbers of {stem}."
        )


def _chosen(key: str, items: Sequence[Item]) -> Item:
    if len(items) == 1:
        return items[0]
    by_key = {item.key: item for item in items}
    return by_key[
        st.segmented_control(
            "Picture",
            list(by_key),
            default=items[0].key,
            key=f"{key}-of",
            required=True,
            format_func=lambda name: by_key[name].heading,
            label_visibility="collapsed",
            help="The picture to which the numbers and files below belong.",
        )
    ]
