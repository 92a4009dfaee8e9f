"""How large the window is: only the browser knows, and tells."""

from typing import Any

import streamlit as st
from streamlit.components.v2 import component

NAME = "retrofit-window"
PAGE = (1280, 720)  # px of the page that has to fit
STEP = 0.05  # smaller changes are not told
SCRIPT = f"""
export default function ({{ parentElement, data, setStateValue }}) {{
    let told = data.shown
    const tell = () => {{
        const ratio = Math.min(window.innerWidth / {PAGE[0]}, window.innerHeight / {PAGE[1]})
        const step = Math.max({STEP}, Math.floor(ratio / {STEP} + 1e-6) * {STEP})
        if (Math.abs(step - told) > {STEP / 2}) setStateValue('ratio', (told = step))
    }}
    tell()
    window.addEventListener('resize', tell)
    return () => window.removeEventListener('resize', tell)
}}
"""


@st.cache_resource
def _component() -> Any:
    return component(NAME, html="<span></span>", js=SCRIPT)


def window(key: str, shown: float) -> float:
    """How often a page of 1280 x 720 fits into the window, in steps of 0.05; the page runs again where that changes.

    Args:
        shown: what is assumed until the browser has told.
    """
    state = _component()(
        key=key, data={"shown": shown}, default={"ratio": shown}, on_ratio_change=lambda: None, height="content"
    )
    return round(float(state.ratio), 2)
