"""A finished run, from the finding down."""

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import escaped

from . import downloads, headline, lost, measured, seen, tuning


def page(entry: runs.Entry, entries: list[runs.Entry]) -> None:
    """The finding, what the networks saw, where something was lost, how good each network is, and everything to take away."""
    palette = widgets.palette()
    headline.headline(entry, palette)
    if sentence := runs.other_version(entry):
        st.info(
            f"{escaped(sentence)} To compare, delete it in *Your runs* and run it again.", icon=":material/history:"
        )
    show_images = seen.seen(entry, palette)
    lost.lost(entry, palette)
    measured.accuracies(entry, entries, palette)
    tuning.tuning(entry, palette)
    downloads.downloads(entry)
    show_images()
