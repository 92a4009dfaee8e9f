"""Do the paper's numbers hold? Its tables beside our measurements, and how each number was made."""

import streamlit as st

from retrofit_app import widgets
from retrofit_app.figures import escaped
from retrofit_app.runs import paper
from retrofit_app.widgets import controls, tables

from . import every, one, parameters
from .parameters import PAPER, VIEWS


def page() -> None:
    """Draw the view that the address names."""
    palette = widgets.palette()
    with st.container(key="heading"):
        st.title("Do the paper's numbers hold?", anchor=False)
    stamp = paper.stamp()
    view = parameters.view(paper.names())
    if view == "all":
        with st.spinner("Comparing all our results with the paper…", show_time=True):
            every.columns_of(stamp)
    sources(stamp)
    controls.switch(
        PAPER, "view", "View", VIEWS, "A table of the paper beside ours, or how many of its claims hold in all of them."
    )
    if view == "all":
        every.every(stamp, palette)
    else:
        one.one(stamp, palette)


def sources(stamp: paper.Stamp) -> None:
    """Say which results cannot be read or, if there are none, where to get them."""
    results, problems = tables.results(stamp)
    for problem in problems:
        st.warning(escaped(problem))
    if not any(results.values()):
        widgets.why(
            "Nothing is measured here: an installed package does not hold the project's own results, so take the folder "
            "benchmarks/results/experiments from its repository and start retrofit app --results FOLDER, or measure a table "
            "yourself with the commands in its cells."
        )
