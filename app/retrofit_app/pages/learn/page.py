"""How does retrofitting work? The explanation, live in the browser, is the file that `retrofit learn` writes."""

import re
from pathlib import Path

import streamlit as st

from retrofit_app import learn
from retrofit_app.address.rule import Parameter
from retrofit_app.address.session import Scope
from retrofit_app.shell import navigation
from retrofit_app.widgets.components import registered

LEARN, FRAME = Scope("learn"), "learn-frame"
#: The steps of the page Levels.
STEPS = ("activations", "importance", "grouping", "targets", "fit")


def page() -> None:
    """Draw the explanation in the workbench's theme, at the address's step, and links to the run's steps."""
    state = LEARN.one(Parameter("at", "", _state))
    theme = "dark" if st.context.theme.type == "dark" else "light"
    with st.container(key="learn"):  # style.css gives it the window's height
        data = {"page": learn.page(), "at": state, "theme": theme}
        script = Path(__file__).with_name("frame.js").read_text()
        registered("retrofit-learn", js=script, isolate_styles=False)(key=FRAME, data=data, on_shows_change=_keep_state)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="learn-links"):
        st.markdown("**Show this on my run**", width="content")
        for step in STEPS:
            navigation.link("levels", step.capitalize(), f"The page Levels: {step} of the run that is open.", step=step)


def _keep_state() -> None:
    """Put what the frame shows into the address."""
    try:
        LEARN.change(at=_state(st.session_state[FRAME]["shows"]))
    except ValueError:
        return  # the browser is not ours to trust


def _state(text: str) -> str:
    """The part after `#` in the explanation's own address."""
    if not re.fullmatch(r"[\w=&.,|:+-]{0,400}", text):
        raise ValueError("it is the state of the explanation, as its own address has it")
    return text
