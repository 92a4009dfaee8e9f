"""How does retrofitting work? The explanation that runs live in the browser, the same file that `retrofit learn` writes."""

import re

import streamlit as st

from retrofit_app import learn
from retrofit_app.address.rule import Parameter
from retrofit_app.address.session import Scope
from retrofit_app.shell import navigation

LEARN = Scope("learn")
#: Of the frame, in pixels: a step never needs scrolling within it.
HEIGHT = 740
#: The steps of the page Levels.
STEPS = ("activations", "importance", "grouping", "targets", "fit")


def page() -> None:
    """The explanation in the theme of the workbench, at the step that the address names; links to the same steps of the run."""
    state = LEARN.one(Parameter("at", "", _state))
    theme = "dark" if st.context.theme.type == "dark" else "light"
    with st.container(key="learn"):  # style.css makes it as high as the window
        st.iframe(learn.page(theme, state), height=HEIGHT, alt="How retrofitting works, step by step")
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="learn-links"):
        st.markdown("**Show this on my run**", width="content")
        for step in STEPS:
            navigation.link("levels", step.capitalize(), f"The page Levels: {step} of the run that is open.", step=step)


def _state(text: str) -> str:
    """What stands behind the `#` in an address of the explanation itself."""
    if not re.fullmatch(r"[\w=&.,|:+-]{0,400}", text):
        raise ValueError("it is the state of the explanation, as its own address has it")
    return text
