"""The colours of the theme in which a page is seen."""

import streamlit as st

from retrofit_app.figures import DARK, LIGHT, Palette


def palette() -> Palette:
    """The colours of the theme in which the page is seen."""
    return DARK if st.context.theme.type == "dark" else LIGHT
