"""Pictures on a page with texts and menu, and small elements beside them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from retrofit_app import figures, runs
from retrofit_app.figures import DARK, LIGHT, Palette, Picture, escaped, letter
from retrofit_app.figures.sheets import split_strip

from .downloads import CAMERA, Origin, source
from .menu import menu


def palette() -> Palette:
    """The colours of the page's current theme."""
    return DARK if st.context.theme.type == "dark" else LIGHT


def why(sentences: Sequence[str] | str, icon: str = ":material/info:") -> None:
    """Say why a panel is empty."""
    text = sentences if isinstance(sentences, str) else " ".join(sentences)
    st.info(escaped(text), icon=icon)


def split(counts: Sequence[Sequence[int]], classes: Sequence[str]) -> None:
    """Draw the split's strip.

    Args:
        counts: images of each class, one row per network.
    """
    names = [f"network {letter(index)}" for index in range(len(counts))]
    st.html(split_strip(counts, classes, names, palette()))


def chart(
    key: str,
    draw: Callable[[Palette], Picture],
    palette: Palette,
    table: Callable[[], pd.DataFrame],
    entry: Origin,
    *,
    heading: str,
    below: str | None = None,
    reading: str = "",
    bare: bool = False,
    level: str = "",
    **selection: Any,
) -> None:
    """Draw a heading with the picture's menu, the picture, and its finding below.

    Args:
        draw: makes the picture in given colours; HTML files always use the light ones.
        table: the numbers behind it, made on demand.
        heading, below: Markdown, the latter in place of the picture's caption; "" for none.
        reading: how to read the picture, behind a sign beside the heading.
        bare: for a projector: no menu, and no text except `heading` and `below`.
        level: the name of the picture's level, for file names.
        selection: on_select and selection_mode of st.plotly_chart.
    """
    picture = draw(palette) if bare else signed(draw(palette), palette, entry)
    with st.container(gap="xxsmall", key=f"figure-{key}"):
        if not bare:
            with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"head-{key}"):
                st.markdown(heading, width="stretch", help=reading or None)
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
    """The picture with its origin at its foot, which the page hides and the camera saves. The given picture, which all
    sessions share, stays unchanged."""
    return replace(picture, figure=figures.sign(picture.figure, [f"{source(entry)}.", runs.LICENCE], palette))
