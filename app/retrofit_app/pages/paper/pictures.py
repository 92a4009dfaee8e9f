"""A column's pictures, as in the notebooks, of the rows that the table shows."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import (
    Palette,
    Picture,
    agreement_matrix,
    clusters,
    escaped,
    landscape_plane,
    lettered,
    loss_path,
    recorded,
)
from retrofit_app.figures.histograms import kept_histograms
from retrofit_app.figures.paper import beside_the_paper, differences, in_order
from retrofit_app.runs.paper import Shown

from . import parameters
from .parameters import PAPER

Draw = Callable[[Palette], Picture]


def pictures(
    shown: Shown,
    columns: Sequence[Any],
    palette: Palette,
    rows: Mapping[str, Collection[str]],
    disagreeing: bool,
) -> None:
    """Draw one picture of one column, and its controls.

    Args:
        rows: column -> the rows to draw numbers of.
        disagreeing: whether to draw only claims that disagree.
    """
    ordered = {
        column.name: [line.row for line in in_order(column) if line.row in rows[column.name]] for column in columns
    }
    measured = {column.name: column for column in columns if ordered[column.name]}
    if not measured:
        return
    st.header("One column as pictures", anchor=False)
    name = parameters.column(list(measured))
    column = measured[name]
    offered = drawings(column, ordered[name], disagreeing)
    kind = parameters.picture(list(offered))
    with st.container(horizontal=True, key="paper-pictures"):
        if len(measured) > 1:
            st.selectbox("Column", list(measured), **PAPER.control("column"), width=240)
        if len(offered) > 1:
            st.segmented_control(
                "Picture",
                list(offered),
                **PAPER.control("picture"),
                required=True,
                format_func=lambda kind: offered[kind][0],
            )
    _, draw = offered[kind]
    source = f"{shown.name}, {name}; retrofit-workbench {runs.library()}"
    origin = widgets.Several(f"paper-{shown.name}-{name}", source)
    heading = f"**{escaped(name)}** · {escaped(column.badge)}"
    widgets.chart(f"paper-{kind}", draw, palette, origin, heading=heading)


def drawings(column: Any, rows: Sequence[str], disagreeing: bool) -> dict[str, tuple[str, Draw]]:
    """A column's possible pictures, with their names."""
    drawn: dict[str, tuple[str, Draw]] = {
        "numbers": ("Numbers", lambda palette: beside_the_paper(column, palette, rows))
    }
    if any(claim.ours is not None for claim in column.claims):
        drawn["differences"] = ("Which method is ahead?", lambda palette: differences(column, palette, disagreeing))
    metrics = {
        name: value
        for line in column.lines
        for each in column.results(line.row)
        for name, value in each.metrics.items()
    }
    if "landscape" in metrics:
        drawn |= _landscape(metrics["landscape"])
    if "histograms" in metrics:
        histograms = {name: each for name, each in metrics["histograms"].items() if name != "uniform"}
        drawn["histograms"] = ("Histograms of the scores", lambda palette: kept_histograms(histograms, palette))
    if "agreement" in metrics:
        drawn["agreement"] = (
            "Agreement of the groups",
            lambda palette: agreement_matrix(metrics["agreement"], palette),
        )
    for score in metrics.get("plane", {}).get("labels", ()):
        drawn[f"neurons-{score}"] = (f"Neurons, {score}", _neurons(metrics["plane"], score))
    return drawn


def _neurons(plane: Any, score: str) -> Draw:
    return lambda palette: clusters(recorded(plane, score), palette)


def _landscape(facts: Any) -> dict[str, tuple[str, Draw]]:
    from retrofit_core.inspection.landscape import Survey

    survey = Survey.from_json(facts)
    planes: dict[str, tuple[str, Draw]] = {
        f"plane-{metric}": (metric.capitalize(), partial(_plane, survey, metric)) for metric in ("loss", "accuracy")
    }
    return planes | {
        f"line-{path.first}-{path.last}": (lettered(f"{path.first} to {path.last}"), partial(loss_path, path))
        for path in survey.paths
    }


def _plane(survey: Any, metric: str, palette: Palette) -> Picture:
    return landscape_plane(survey, metric, palette)
