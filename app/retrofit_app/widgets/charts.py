"""Pictures on a page with texts, and small elements beside them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from retrofit_app import figures, runs
from retrofit_app.figures import DARK, LIGHT, Palette, Picture, escaped, letter
from retrofit_app.figures.sheets import split_strip

from .downloads import CAMERA, Origin, source


def palette() -> Palette:
    """The colours of the page's current theme."""
    return DARK if st.context.theme.type == "dark" else LIGHT


def why(text: str) -> None:
    """Say why a panel is empty."""
    st.info(escaped(text), icon=":material/info:")


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
    entry: Origin,
    *,
    heading: str,
    below: str | None = None,
    reading: str = "",
    bare: bool = False,
    **selection: Any,
) -> None:
    """Draw a heading, the picture, and its finding below. Plotly's camera saves it, with its origin at the foot.

    Args:
        draw: makes the picture in given colours.
        heading, below: Markdown, the latter in place of the picture's caption; "" for none.
        reading: how to read the picture, behind a sign beside the heading.
        bare: for a projector: no camera, and no text except `heading` and `below`.
        selection: on_select and selection_mode of st.plotly_chart.
    """
    picture = draw(palette) if bare else signed(draw(palette), palette, entry)
    with st.container(gap="xxsmall", key=f"figure-{key}"):
        if heading:
            st.markdown(heading, help=None if bare else reading or None)
        config = {**CAMERA, "displayModeBar": False if bare else "hover"}
        st.plotly_chart(
            picture.figure, key=key, theme=None, alt=picture.alt, config=config, width="stretch", **selection
        )
        words = ("" if bare else escaped(picture.caption)) if below is None else below
        if words:
            st.caption(words)


def signed(picture: Picture, palette: Palette, entry: Origin) -> Picture:
    """The picture with its origin at its foot, which the page hides and the camera saves. The given picture, which all
    sessions share, stays unchanged."""
    return replace(picture, figure=figures.sign(picture.figure, [f"{source(entry)}.", runs.LICENCE], palette))
