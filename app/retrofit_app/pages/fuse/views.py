"""The page's three views, and the bar above them with the choice of view and the primary button."""

from dataclasses import dataclass

import streamlit as st

from retrofit_app.address.readers import Series, path
from retrofit_app.address.rule import declared, option
from retrofit_app.address.session import Scope
from retrofit_app.widgets import controls

VIEWS = {"result": "Result", "new": "New fusion", "runs": "Your runs"}
MOST_TICKS = 12


@dataclass(frozen=True)
class Listing:
    """The choices in the list of runs."""

    filter: str = declared("", path)
    """Words that a run's line must have"""
    ticks: tuple[str, ...] = declared((), Series("|", most=MOST_TICKS, once=True))
    """Names of runs to compare"""
    opened: tuple[str, ...] = declared((), Series("|", once=True))
    """Names of leaderboards whose runs are listed"""


VIEW = Scope("fuse-view", (Listing,))


def view() -> str:
    """The current view, one of VIEWS, from the address or its control."""
    return VIEW.one(option("view", list(VIEWS), "result", "view of this page", until_run=True))


def bar(view: str) -> None:
    """Draw the views, and the button for a new fusion except on its own view, where Start is the primary button."""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", key="fuse-bar"):
        controls.views(VIEW, VIEWS, "Shows the open run, the form of a new one, or the list of all runs.")
        if view != "new":
            st.button(
                "New fusion",
                key="fuse-new",
                icon=":material/add:",
                type="primary",
                on_click=lambda: VIEW.change(view="new"),
                help="Fuses networks of your choice: shipped ones, newly trained ones, or your own.",
            )
