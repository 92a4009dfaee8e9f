"""The window's size, which only the browser knows and reports."""

import streamlit as st

from .components import registered

NAME, KNOWN = "retrofit-window", "enlarged"
PAGE = (1280, 720)  # px, the page that has to fit
NARROW = 700  # px, below which a lecture scrolls, with pictures of their usual size
STEP = 0.05  # smaller changes are not reported
SCRIPT = f"""
export default function ({{ parentElement, data, setStateValue }}) {{
    let told = data.shown
    const tell = () => {{
        const isNarrow = window.innerWidth < {NARROW}
        const ratio = isNarrow ? 1 : Math.min(window.innerWidth / {PAGE[0]}, window.innerHeight / {PAGE[1]})
        const step = Math.max({STEP}, Math.floor(ratio / {STEP} + 1e-6) * {STEP})
        if (Math.abs(step - told) > {STEP / 2}) setStateValue('ratio', (told = step))
    }}
    tell()
    window.addEventListener('resize', tell)
    return () => window.removeEventListener('resize', tell)
}}
"""


def enlarged() -> float:
    """The window's size relative to a page of 1280 x 720, in steps of 0.05; the page reruns when it changes.

    It is 0 until the browser has reported. Draw nothing then: anything drawn at another size would jump.
    """
    known = st.session_state.get(KNOWN, 0.0)
    state = registered(NAME, js=SCRIPT)(
        key="window", data={"shown": known}, default={"ratio": known}, on_ratio_change=lambda: None, height="content"
    )
    st.session_state[KNOWN] = round(float(state.ratio), 2)
    return st.session_state[KNOWN]
