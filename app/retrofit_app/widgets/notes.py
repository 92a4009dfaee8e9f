"""Sentences where a picture would stand."""

from collections.abc import Sequence

import streamlit as st

from retrofit_app.figures import escaped


def why(sentences: Sequence[str] | str, icon: str = ":material/info:") -> None:
    """Why a panel is empty."""
    text = sentences if isinstance(sentences, str) else " ".join(sentences)
    st.info(escaped(text), icon=icon)
