"""Which network is better, and at what? Any runs side by side."""

import streamlit as st

from retrofit_app import widgets
from retrofit_app.shell import picker

from . import side


def page() -> None:
    """Draw the comparison."""
    with st.container(key="heading"):
        st.title("Which network is better, and at what?", anchor=False)
    side.side(picker.choice(), widgets.palette())
