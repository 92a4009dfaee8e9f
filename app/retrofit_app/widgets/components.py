"""Parts of pages that run in the browser."""

from typing import Any

import streamlit as st
from streamlit.components.v2 import component


@st.cache_resource
def registered(name: str, html: str = "<span></span>", **parts: Any) -> Any:
    """A component, registered once; to draw it, call it.

    Args:
        parts: `js`, `css`, and `isolate_styles`, False where the app's style sheet applies.
    """
    return component(name, html=html, **parts)
