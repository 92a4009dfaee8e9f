"""What is between a run's networks, and around them: loss and accuracy on a plane, on lines, on circles."""

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import Palette
from retrofit_app.shell import lectures, picker
from retrofit_app.widgets import works
from retrofit_app.widgets.errors import guarded

from . import drawn
from .form import LANDSCAPES, asked


def page() -> None:
    """Draw the shown landscape, or the one being measured, and the form of another."""
    entry, palette = picker.choice().entry, widgets.palette()
    with st.container(key="heading"):
        st.title("What is between the networks?", anchor=False)
    if entry.state != "done":
        widgets.why("This run is not finished, so it has no fused network yet. Choose another run on the left.")
        return
    every, chosen = LANDSCAPES.shown(entry)
    if any(work.state == "done" for work in every):
        lectures.way_in("both planes", "slides")
    if lectures.read().lecture:
        if chosen is not None and chosen.state == "done":
            lectures.show(runs.label(entry), drawn.slides(entry, palette, chosen))
            return
        st.info("Lecture mode needs a measured landscape.", icon=":material/info:")
    body(entry, palette)


@st.fragment
@guarded
def body(entry: runs.Entry, palette: Palette) -> None:
    """Draw all but the sidebar: another line reruns only this."""
    every, chosen = LANDSCAPES.shown(entry)
    if chosen is None:
        st.markdown(
            "Every point of the plane through three networks of one shape is a network, too: a mixture of the "
            "three. Loss and accuracy show whether there is a barrier between the networks, and where the fused "
            "network is relative to its parents. "
            "**This run has no landscape.**"
        )
    else:
        works.piece(LANDSCAPES, entry, every, chosen, lambda: drawn.landscape(entry, palette, chosen))
    st.divider()
    label = f"Measure {'a' if chosen is None else 'another'} landscape of this run"
    busy = chosen is not None and chosen.going
    works.ask(LANDSCAPES, entry, label, lambda: asked(entry), busy=busy, is_open=chosen is None)
