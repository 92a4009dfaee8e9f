"""What each network saw, as contact sheets. Reading images needs torch, so they come last."""

from collections.abc import Callable
from pathlib import PurePath

import streamlit as st

from retrofit_app import figures, runs, widgets
from retrofit_app.figures import escaped
from retrofit_app.figures.sheets import sheets
from retrofit_app.models import samples, sources


def seen(entry: runs.Entry, palette: figures.Palette) -> Callable[[], None]:
    """Draw empty sheets for a run, or say why there are none.

    Returns:
        A function that fills them, for the end of the page.
    """
    counts = runs.class_counts(entry)
    if not counts or not entry.metrics.get("classes"):
        st.caption("The record does not say which images each network saw.")
        return _nothing
    if not entry.config.get("splits"):  # checkpoints know the classes, but not which images
        st.markdown("**What each network saw**")
        words = widgets.split(counts, entry.metrics["classes"])
        st.caption(f"{escaped(words)} The checkpoints say so; they do not name the images.".strip())
        return _nothing
    st.markdown("**What each network saw**")
    slot, data = st.empty(), entry.config["data"]
    slot.html(sheets(samples.blank(entry, counts), palette))

    def fill() -> None:
        try:
            slot.html(sheets(samples.filled(entry, counts), palette))
        except (OSError, ValueError, KeyError) as error:
            text = runs.without_folders(error, sources.located(data))
            slot.caption(f"The images of {escaped(PurePath(data).name)} are not shown: {escaped(text)}")

    return fill


def _nothing() -> None:
    """Fill nothing, as there are no images."""
