"""A picture on a page: with its words, its numbers as a table, and files to take away."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from retrofit_app import figures, runs
from retrofit_app.address.session import ALL
from retrofit_app.figures import LIGHT, Palette, Picture, escaped

from .downloads import CAMERA, LICENCE, csv, file_stem, html, source


def chart(
    key: str,
    draw: Callable[[Palette], Picture],
    palette: Palette,
    table: Callable[[], pd.DataFrame],
    entry: runs.Entry,
    *,
    heading: str,
    below: str | None = None,
    bare: bool = False,
    level: str = "",
    **selection: Any,
) -> None:
    """A heading with "Table" beside it (the numbers, CSV and HTML), a picture, and its finding below.

    Args:
        draw: makes the picture in given colours; files are always in the light ones.
        table: the numbers behind it, made when asked for.
        heading, below: Markdown, the latter in place of the picture's caption; "" for none.
        bare: for a projector: no table, and no words but those of `heading` and `below`.
        level: of the run, whose picture it is; files carry its name.
        selection: on_select and selection_mode of st.plotly_chart.
    """
    picture = signed(draw(palette), palette, entry)
    stem = file_stem(entry.name, level, key)
    if not bare:
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", gap="small"):
            st.markdown(heading, width="stretch")
            data(key, table, entry, draw, figures.shown(heading), level)
    elif heading:
        st.markdown(heading)
    saved = ALL.current("format")
    config = {
        **CAMERA,
        "toImageButtonOptions": {"format": saved, "filename": stem, "scale": 3 if saved == "png" else 1},
    }
    st.plotly_chart(picture.figure, key=key, theme=None, alt=picture.alt, config=config, width="stretch", **selection)
    words = ("" if bare else escaped(picture.caption)) if below is None else below
    if words:
        st.caption(words)


def data(
    key: str,
    table: Callable[[], pd.DataFrame],
    entry: runs.Entry,
    draw: Callable[[Palette], Picture] | None = None,
    heading: str = "",
    level: str = "",
) -> None:
    """The numbers of a picture with downloads; nothing is made before it is opened."""
    stem = file_stem(entry.name, level, key)
    box = st.popover(
        "Table",
        icon=":material/table_view:",
        type="tertiary",
        key=f"{key}-data",
        on_change="rerun",
        help="Show the numbers behind this picture as a table, or save them. The camera at the picture's corner saves it "
        "as SVG or PNG (chosen in the sidebar).",
    )
    if not box.open:
        return
    with box:
        numbers = table()
        st.dataframe(numbers, hide_index=True, height=min(36 * len(numbers) + 40, 320), alt=f"The numbers of {stem}.")
        with st.container(horizontal=True):
            st.download_button(
                "CSV",
                lambda: csv(numbers, entry),
                f"{stem}.csv",
                "text/csv",
                on_click="ignore",
                key=f"{key}-csv",
                help="This table, with a last line that says where it comes from.",
            )
            if draw is not None:
                st.download_button(
                    "HTML",
                    lambda: html(draw(LIGHT), heading, entry),
                    f"{stem}.html",
                    "text/html",
                    on_click="ignore",
                    key=f"{key}-html",
                    help="The picture as one page that opens without a network (about 5 MB).",
                )


def signed(picture: Picture, palette: Palette, entry: runs.Entry) -> Picture:
    """The picture with its origin at its foot, which the page hides and the camera saves. The given one, which all sessions
    share, stays as it is."""
    figure = go.Figure(picture.figure.to_plotly_json(), _validate=False)
    figures.sign(figure, [f"{source(entry)}.", LICENCE], palette)
    return replace(picture, figure=figure)
