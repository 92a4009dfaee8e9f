"""Who was trained on what, as a strip on the page."""

from collections.abc import Sequence

import streamlit as st

from retrofit_app.figures import letter
from retrofit_app.figures.split import split_strip, split_words

from .theme import palette


def split(counts: Sequence[Sequence[int]], classes: Sequence[str]) -> str:
    """Draw the strip; its finding in words is returned, for the caption.

    Args:
        counts: images of each class, a row for each network.
    """
    names = [f"network {letter(index)}" for index in range(len(counts))]
    st.html(split_strip(counts, classes, names, palette()))
    return split_words(counts, classes, names)
