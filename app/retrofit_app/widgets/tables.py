"""The paper's tables with all results, cached until a result changes."""

from typing import Any

import streamlit as st

from retrofit_app.runs import paper
from retrofit_app.runs.paper import Shown, Stamp


@st.cache_resource(max_entries=1, show_spinner="Reading the results…")
def results(stamp: Stamp) -> tuple[dict[str, list[Any]], list[str]]:
    """See `paper.read`."""
    return paper.read(stamp)


@st.cache_resource(max_entries=60, show_spinner="Comparing them with the paper…")
def table(stamp: Stamp, name: str) -> Shown:
    """See `paper.table`."""
    return paper.table(name, results(stamp)[0][name])
