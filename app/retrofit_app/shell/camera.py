"""In what format pictures are saved: one choice for all of them."""

import streamlit as st

from retrofit_app.address.session import ALL
from retrofit_app.widgets.downloads import FORMATS


def camera() -> None:
    """In the sidebar: what the camera of every picture saves. (A picture's own buttons cannot ask.)"""
    with st.sidebar:
        st.segmented_control(
            "The camera saves",
            list(FORMATS),
            format_func=FORMATS.__getitem__,
            required=True,
            help="The camera at a picture's corner saves it as it is seen: SVG stays sharp at any size, PNG goes anywhere.",
            **ALL.control("format"),
        )
