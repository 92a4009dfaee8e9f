"""The menu of a picture or table: numbers, files, a link to the view, the run as a command."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from retrofit_app import runs
from retrofit_app.figures import LIGHT, Palette, Picture

from . import copies
from .components import registered
from .downloads import Origin, Several, csv, file_stem, html


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


def menu_of(key: str, items: Sequence[Item], entry: Origin, level: str = "", drawn_here: bool = False) -> None:
    """Draw the menu of a picture or table, or of several pictures with a choice among them.

    Args:
        key: the chart's key.
        level: the name of the pictures' level, for file names.
        drawn_here: whether `neurons.pictures` draws the chart; its files are the browser's.
    """
    box = st.popover(
        "Table and files",
        icon=":material/more_horiz:",
        type="tertiary",
        key=f"menu-{key}",
        on_change="rerun",
        help="Its numbers as a table, files, a link to this view, and the run as a command.",
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
            if item.draw or drawn_here:
                saver(key, stem, f"{key}-saver", item.key if drawn_here else "")
            if draw := item.draw:
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


# --- buttons that save a picture as seen in the browser, without redrawing it on the server -------

HTML = "<div class='saver' role='group' aria-label='Save the picture'><button>SVG</button><button>PNG</button></div>"
CSS = """
.saver{display:flex;gap:.5rem}
button{font:inherit;font-size:.875rem;color:var(--st-text-color);background:var(--st-background-color);cursor:pointer;min-height:2.5rem;
border:1px solid var(--st-border-color);border-radius:var(--st-button-radius);padding:.25rem .75rem}
button:hover,button:focus-visible{color:var(--st-primary-color);border-color:var(--st-primary-color)}
"""
#: Plotly's camera makes the file: the picture holds its hidden button and its settings. Pictures of `neurons` make
#: theirs themselves.
SCRIPT = """
export default function ({ parentElement, data }) {
    parentElement.querySelectorAll('button').forEach(button => {
        const format = button.textContent.toLowerCase()
        button.title = `Save the picture as it is seen: ${data.stem}.${format}`
        button.onclick = () => {
            if (data.picture) {
                document.dispatchEvent(new CustomEvent('retrofit-save', { detail: { ...data, format } }))
                return
            }
            const chart = document.querySelector(`.st-key-${CSS.escape(data.chart)} .js-plotly-plot`)
            chart._context.toImageButtonOptions = { format, filename: data.stem, scale: format === 'png' ? 3 : 1 }
            chart.querySelector('.modebar-btn').click()
        }
    })
}
"""


def saver(chart: str, stem: str, key: str, picture: str = "") -> None:
    """Draw buttons for SVG (sharp at any size) and PNG (usable anywhere).

    Args:
        chart: the key of a `st.plotly_chart` on the page, or of `neurons.pictures`.
        stem: the file's name without extension.
        picture: which of `neurons.pictures`.
    """
    draw = registered("retrofit-saver", html=HTML, css=CSS, js=SCRIPT)
    draw(key=key, data={"chart": chart, "stem": stem, "picture": picture}, width="content")
