"""Sentences where a picture would stand."""

from collections.abc import Sequence

import streamlit as st


def why(sentences: Sequence[str] | str, icon: str = ":material/info:") -> None:
    """Why a panel is empty."""
    text = sentences if isinstance(sentences, str) else " ".join(sentences)
    st.info(text, icon=icon)
