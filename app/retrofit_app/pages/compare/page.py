"""Which network is better, and at what? Any runs side by side, and all methods on one set of parents."""

import streamlit as st

from retrofit_app import widgets
from retrofit_app.shell import lectures, picker
from retrofit_app.widgets import controls

from . import board, parameters, side, sweep
from .parameters import COMPARE, VIEWS

DRAWN = {"runs": side.side, "board": board.board, "sweep": sweep.sweep}


def page() -> None:
    """Draw the view that the address names."""
    palette = widgets.palette()
    lectures.way_in("the table, whose rows are revealed one after the other", "slides")
    with st.container(key="heading"):
        st.title("Which network is better, and at what?", anchor=False)
    view = parameters.view()
    controls.views(
        COMPARE, VIEWS, "Compares finished runs, all methods on one set of networks, or one setting at several values."
    )
    # A place for each view: the last view's content vanishes at once, instead of turning grey between new parts.
    places = {name: st.container() if name == view else st.empty() for name in VIEWS}
    with places[view]:
        DRAWN[view](picker.choice(), palette)
