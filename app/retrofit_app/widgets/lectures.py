"""The way into a lecture mode and the switch for keys, which stand in the sidebar of every page that has them."""

from collections.abc import Callable

import streamlit as st

from retrofit_app.address import session

#: In a lecture these turn the page. Presenters' remote controls send the first two.
PAGES = {"PageDown": 1, "PageUp": -1, "Right": 1, "Left": -1}


def way_in(toggle: Callable[[], None], shows: str, turns: str, keys: str = "") -> None:
    """Draw both; not from a fragment, which cannot write into the sidebar.

    Args:
        toggle: leads in and out. In a lecture the sidebar is hidden, and the button's key still works.
        shows: what a lecture shows, and
        turns: what PAGES go through.
        keys: which further keys there are.
    """
    are_on = session.first_time("shortcuts", True)
    with st.sidebar:
        st.button(
            "Lecture mode",
            key="go-lecture",
            icon=":material/present_to_all:",
            width="stretch",
            on_click=toggle,
            shortcut="L" if are_on else None,
            help=f"For a projector: {shows}, as large as the window. Page down and page up (or the arrows) go through the "
            f"{turns}. L starts and ends it. The address remembers it, so a link opens the same view.",
        )
        st.toggle(
            "Keyboard shortcuts",
            key="shortcuts",
            persist_state="session",
            help=f"{keys} Switch them off if they get in your way.".strip(),
        )
