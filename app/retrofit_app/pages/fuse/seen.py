"""What each network saw, as contact sheets. Reading images needs torch, so they come last."""

from collections.abc import Callable
from pathlib import PurePath

import streamlit as st

from retrofit_app import figures, runs, widgets
from retrofit_app.figures import escaped
from retrofit_app.figures.sheets import sheets
from retrofit_app.models import samples, sources


def seen(entry: runs.Entry, palette: figures.Palette) -> Callable[[], None]:
    """Draw empty sheets for a run, or the classes if its images are unknown.

    Returns:
        A function that fills them, for the end of the page.
    """
    counts, classes = runs.class_counts(entry), entry.metrics.get("classes")
    if not counts or not classes:  # the record does not say
        return lambda: None
    st.header("What each network saw", anchor=False)
    if not entry.config.get("splits"):  # checkpoints know the classes, but not which images
        widgets.split(counts, classes)
        st.caption("As the checkpoints say; they do not name the images.")
        return lambda: None
    slot, data = st.empty(), entry.config["data"]
    slot.html(sheets(samples.blank(entry, counts), palette))

    def fill() -> None:
        try:
            slot.html(sheets(samples.filled(entry, counts), palette))
        except (OSError, ValueError, KeyError) as error:
            text = runs.without_folders(error, sources.located(data))
            slot.caption(f"The images of {escaped(PurePath(data).name)} are not shown: {escaped(text)}")

    return fill
