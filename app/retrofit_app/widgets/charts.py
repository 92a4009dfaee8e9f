"""Pictures on a page with texts, and small elements beside them."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from retrofit_app import figures, runs
from retrofit_app.figures import DARK, LIGHT, Palette, Picture, claimed, escaped, letter
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
    picture: Picture,
    entry: Origin,
    *,
    heading: str | None = None,
    below: str | None = None,
    reading: str = "",
    bare: bool = False,
    **selection: Any,
) -> None:
    """Draw a picture below its finding. Plotly's camera saves it, with its origin at the foot.

    Args:
        heading: Markdown in place of the finding, which then is below.
        below: Markdown in place of that; "" for none.
        reading: how to read the picture, behind a sign beside the heading.
        bare: for a projector: no camera, and no text except `heading` and `below`.
        selection: on_select and selection_mode of st.plotly_chart.
    """
    figure = picture.figure if bare else signed(picture, palette(), entry)
    if heading is None:
        heading, below = "" if bare else claimed(picture.caption), ""
    with st.container(gap="xxsmall", key=f"figure-{key}"):
        if heading:
            st.markdown(heading, help=None if bare else reading or None)
        config = {**CAMERA, "displayModeBar": False if bare else "hover"}
        st.plotly_chart(figure, key=key, theme=None, alt=picture.alt, config=config, width="stretch", **selection)
        if words := below if bare or below is not None else escaped(picture.caption):
            st.caption(words)


def signed(picture: Picture, palette: Palette, entry: Origin) -> Any:
    """The figure with its origin at its foot, which the page hides and the camera saves. The given picture, which all
    sessions share, stays unchanged."""
    return figures.sign(picture.figure, [f"{source(entry)}.", runs.LICENCE], palette)
