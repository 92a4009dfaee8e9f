"""A picture on a page, with its words and its menu."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from retrofit_app import figures
from retrofit_app.figures import Palette, Picture, escaped

from .downloads import CAMERA, LICENCE, source
from .menu import menu
from .origins import Origin


def chart(
    key: str,
    draw: Callable[[Palette], Picture],
    palette: Palette,
    table: Callable[[], pd.DataFrame],
    entry: Origin,
    *,
    heading: str,
    below: str | None = None,
    bare: bool = False,
    level: str = "",
    **selection: Any,
) -> None:
    """A heading with the picture's menu beside it, the picture, and its finding below.

    Args:
        draw: makes the picture in given colours; files as HTML are always in the light ones.
        table: the numbers behind it, made when asked for.
        heading, below: Markdown, the latter in place of the picture's caption; "" for none.
        bare: for a projector: no menu, and no words but those of `heading` and `below`.
        level: of the run, whose picture it is; files carry its name.
        selection: on_select and selection_mode of st.plotly_chart.
    """
    picture = draw(palette) if bare else signed(draw(palette), palette, entry)
    with st.container(gap="xxsmall", key=f"figure-{key}"):
        if not bare:
            with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"head-{key}"):
                st.markdown(heading, width="stretch")
                menu(key, table, entry, draw, figures.plain_text(heading), level)
        elif heading:
            st.markdown(heading)
        st.plotly_chart(
            picture.figure, key=key, theme=None, alt=picture.alt, config=CAMERA, width="stretch", **selection
        )
        words = ("" if bare else escaped(picture.caption)) if below is None else below
        if words:
            st.caption(words)


def signed(picture: Picture, palette: Palette, entry: Origin) -> Picture:
    """The picture with its origin at its foot, which the page hides and the camera saves. The given one, which all sessions
    share, stays as it is."""
    return replace(picture, figure=figures.sign(picture.figure, [f"{source(entry)}.", LICENCE], palette))
