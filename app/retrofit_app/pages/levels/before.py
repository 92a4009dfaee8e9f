"""Before the grouping: how neurons respond, and how much each counts."""

from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from retrofit_app.figures import escaped, title

from .view import View


def activations(view: View) -> None:
    """How the neurons respond, before anything is done with them."""
    view.say(
        "Neurons that lie close together answer alike to the same samples, whichever network they come from: those are worth "
        "merging."
    )
    left, right = st.columns(2, gap="large")
    with left:
        view.chart("activations", "**Who responds alike?**", view.neurons)
    with right:
        view.chart("activity", "**How strongly do they respond?**", view.neurons)


def importance(view: View) -> None:
    """How much each neuron counts."""
    view.say(
        "Importance says how much of a network's decisions passes through a neuron, and weighs it in every group and error."
    )
    columns = st.columns(len(view.scores)) if len(view.scores) > 1 else [st.container()]
    for column, score in zip(columns, view.scores, strict=True):
        with column:
            heading = f"**{escaped(title(score))}**" + (
                " (this run)" if score == view.entry.config["importance"] else ""
            )
            options: dict[str, Any] = {"score": score} if view.analysis is not None else {}
            view.chart(
                f"scores-{score}",
                heading,
                partial(scores_table, view, score),
                kind="scores",
                name=title(score),
                **options,
            )
    view.missing()


def scores_table(view: View, score: str) -> pd.DataFrame:
    """A score, neuron by neuron."""
    grouped = view.grouping(score)
    return pd.DataFrame({"neuron": grouped.names, "importance × mean": grouped.weights})
