"""The three views of the page, and what stands above them: which one is shown, and its one primary button."""

from dataclasses import dataclass

import streamlit as st

from retrofit_app.address.readers import path, texts
from retrofit_app.address.rule import Parameter, option
from retrofit_app.address.session import Scope

VIEW = Scope("fuse-view")
VIEWS = {"result": "Result", "new": "New fusion", "runs": "Your runs"}


MOST_TICKS = 12


@dataclass(frozen=True)
class Where:
    """What is looked at."""

    view: str


@dataclass(frozen=True)
class Chosen:
    """What is chosen in the list of runs."""

    filter: str
    """Words that a run's line has to have"""
    ticks: tuple[str, ...]
    """Names of runs to compare"""


def where() -> Where:
    """The view, from the address or its control."""
    return VIEW.read(Where, [option("view", list(VIEWS), "result", "view of this page", until_run=True)])


def chosen() -> Chosen:
    """Filter and ticks, from the address or their controls."""
    return VIEW.read(Chosen, _chosen())


def words() -> list[str]:
    """What the parameters of the list are called in the address."""
    return [parameter.word for parameter in _chosen()]


def _chosen() -> list[Parameter]:
    return [Parameter("filter", "", path), Parameter("ticks", (), _ticks, "|".join)]


def _ticks(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(texts(text)))
    if len(names) > MOST_TICKS:
        raise ValueError(f"it is a list of up to {MOST_TICKS} runs, separated by |")
    return names


def bar(view: str) -> None:
    """The views; and the way to a new fusion, but where that is what is shown: there Start is the primary button."""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", key="fuse-bar"):
        st.segmented_control(
            "View",
            list(VIEWS),
            **VIEW.control("view"),
            required=True,
            format_func=VIEWS.__getitem__,
            label_visibility="collapsed",
            help="The run that is open, the form of a new one, or the list of all.",
        )
        if view != "new":
            st.button(
                "New fusion",
                key="fuse-new",
                icon=":material/add:",
                type="primary",
                on_click=lambda: VIEW.change(view="new"),
                help="Fuse networks of your choice: shipped ones, newly trained ones, or your own.",
            )
