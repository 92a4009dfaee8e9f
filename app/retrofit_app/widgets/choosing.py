"""A drawing of ours in HTML, some parts of which can be chosen: its buttons say what they are called."""

from collections.abc import Callable
from typing import Any

import streamlit as st
from streamlit.components.v2 import component

from retrofit_app.address import session

NAME = "retrofit-choosing"
#: A click beside a button, in the same cell of a table or in its row, counts as one on it.
SCRIPT = """
export default function ({ parentElement, data, setTriggerValue }) {
    const place = parentElement.querySelector('.choosing')
    if (place.shown !== data.html) place.innerHTML = place.shown = data.html
    place.onclick = ({ target }) => {
        let button = target.closest('[data-cell]')
        for (let part = target.closest('td'); part && !button; part = part.nextElementSibling)
            button = part.querySelector('[data-cell]')
        if (button) setTriggerValue('chosen', button.dataset.cell)
    }
}
"""


@st.cache_resource
def _component() -> Any:
    # Not in a shadow tree: the app's style sheet is to reach it.
    return component(NAME, html="<div class='choosing'></div>", js=SCRIPT, isolate_styles=False)


def choosing(key: str, html: str, on_choice: Callable[[str], None]) -> None:
    """The drawing.

    Args:
        html: buttons with an attribute `data-cell`; every text in it is escaped.
        on_choice: what to do with the name of the button that was pressed; a callback.
    """

    def told() -> None:
        on_choice(session.recall(key)["chosen"])

    _component()(key=key, data={"html": html}, on_chosen_change=told)
