"""An HTML drawing with clickable parts: its buttons report their names."""

from collections.abc import Callable

import streamlit as st

from .components import registered

NAME = "retrofit-choosing"
#: A click beside a button, in its table cell or to its left in the row, counts as a click on it.
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


def choosing(key: str, html: str, on_choice: Callable[[str], None]) -> None:
    """Draw it.

    Args:
        html: buttons with an attribute `data-cell`; every text in it is escaped.
        on_choice: a callback that gets the pressed button's name.
    """

    def told() -> None:
        on_choice(st.session_state[key]["chosen"])

    draw = registered(NAME, html="<div class='choosing'></div>", js=SCRIPT, isolate_styles=False)
    draw(key=key, data={"html": html}, on_chosen_change=told)
