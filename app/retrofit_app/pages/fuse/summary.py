"""The head of a finished run: title, tiles, and the finding in a sentence."""

import streamlit as st

from retrofit_app import figures, runs
from retrofit_app.figures import escaped
from retrofit_app.runs import headline
from retrofit_core.runs.store import Work


def summary(entry: runs.Entry, palette: figures.Palette, tuned: Work | None = None) -> None:
    """Draw title, tiles, and the finding in a sentence.

    Args:
        tuned: the fine-tuning whose network also gets a tile, once it exists.
    """
    networks, classes = entry.metrics.get("networks"), entry.metrics.get("classes")
    if not networks or not classes:
        st.title(headline.networks_title(len(entry.config["models"])), anchor=False)
        st.markdown(
            f"{escaped(entry.config['method'])}. No accuracies were measured; `retrofit fuse … --evaluate --record` does it."
        )
        return
    counts = runs.class_counts(entry)
    shown = headline.rows(entry, counts, tuned)
    st.title(headline.title(entry, counts), anchor=False)
    st.html(figures.tiles(shown, classes, palette))
    guesses = any(any(tile.guessed) for row in shown for tile in row)
    st.markdown(headline.finding(entry), help=headline.reading(entry, guesses))
    if sentence := headline.shortfall(entry, counts):
        st.warning(sentence, icon=":material/trending_down:")
