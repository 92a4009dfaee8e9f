"""Who is merged with whom: a picture for each score, or two groupings beside each other."""

from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from retrofit_app import figures, widgets
from retrofit_app.address import session
from retrofit_app.figures import Neurons, escaped, percent, title
from retrofit_app.widgets import readings

from . import panels
from .parameters import LEVELS
from .view import View

PICKING = {"lasso": "lasso", "box": "box", "click": "points"}
SQUARE, LARGE = 300, 400  # px, the height of a cluster picture: of three, and of two beside each other


def grouping(view: View) -> None:
    """The pictures, what is chosen in them, and a closer look at one thing."""
    report = view.report
    share = percent(100 * report.grouping_error / (report.energy or 1))
    grouped = readings.grouping(
        view.entry, view.index
    )  # as the run grouped them; its score need not be among the analysed ones
    alike = "that stand for one class each" if view.last and figures.same_numbers(grouped) else "that respond alike"
    view.say(
        f"The {sum(report.widths)} neurons are put into {report.width} groups {alike}; each group becomes one neuron of the "
        f"fused network. What its members do not share is the grouping error: {share} of their energy here, in which each "
        "neuron counts by its importance."
    )
    if report.width == 1:
        widgets.why("This level has one cluster: every neuron is in it, and colours have nothing to tell apart.")
    if len(set(report.labels.tolist())) == len(report.labels):
        widgets.why("Nothing is merged here: as many groups as neurons.")
    phone = "Mobi" in (st.context.headers.get("User-Agent") or "")
    session.first_time("picking", "click" if phone else "lasso")
    squares(view)
    st.html(figures.cluster_key(len(report.widths), sum(report.widths), view.palette))
    hidden = percent(max(0.0, 100 * (1 - float(report.explained[:2].sum()))))
    view.note(
        f"The plane hides {hidden} of the variance, so neurons of one cluster may look far apart, and neurons that look close "
        "may differ.",
        help="Every picture of this level has the same axes: the first two principal components of the neurons' outputs on "
        "the fusion samples, computed for this level alone. Densest: the cluster with most members. Alone: a cluster of one. "
        "Off-scale: outside the frame, drawn open on its border.",
    )
    if view.lecture:
        return
    controls(view)
    panels.show_picked(view)
    panels.panel(view)


def controls(view: View) -> None:
    """Controls: which groupings are compared, how neurons are picked, whether outliers are in the frame."""
    pairs = panels.pairs(view.analysis, view.scores)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if pairs:
            st.selectbox(
                "Side by side",
                ["", *pairs],
                **LEVELS.control("pair"),
                width=220,
                format_func=lambda pair: panels.pair_words(view, pair) if pair else "all scores",
                help="All scores, or any two groupings in larger pictures. Two seeds of one score show what chance alone does.",
            )
        if len(view.scores) > 1:
            st.selectbox(
                "Score",
                view.scores,
                **LEVELS.control("score"),
                format_func=title,
                width=140,
                help="Whose grouping the tables and the histogram below follow. The pictures show all of them.",
            )
        seeds = len(view.analysis.labels[view.look.score]) if view.analysis is not None else 1
        if seeds > 1:
            st.selectbox(
                "Seed",
                [str(seed) for seed in range(seeds)],
                **LEVELS.control("seed"),
                width=120,
                format_func=lambda seed: "the run's" if seed == "0" else f"other {seed}",
                help="The same neurons grouped again with another start: what changes now is chance, not the score.",
            )
        st.segmented_control(
            "Pick neurons by",
            list(PICKING),
            key="picking",
            persist_state="session",
            required=True,
            help="Lasso or box: draw around neurons. Click: one at a time, and a finger scrolls the page as usual. The picked "
            "ones stay bright under every score and at every level; the table below lists them.",
        )
        st.toggle(
            "Show outliers",
            **LEVELS.control("outliers"),
            help="Widen the frame until every neuron is inside. Otherwise those outside stand open on its border.",
        )


def squares(view: View) -> None:
    """One cluster picture per grouping, side by side, with a common frame."""
    shown = panels.compared(view)
    reference = view.grouping(*shown[0])
    columns = st.columns(len(shown), gap="small") if len(shown) > 1 else [st.columns([1, 1])[0]]
    for position, (column, (score, seed)) in enumerate(zip(columns, shown, strict=True)):
        grouped = view.grouping(score, seed)
        heading = f"**{escaped(title(score))}**"
        if len({name for name, _ in shown}) < len(shown):  # twice the same score
            heading += f", {'other ' if seed else 'the run’s '}seed" + (f" {seed}" if seed else "")
        if position and (index := agreement_of(view, shown[0], (score, seed))) is not None:
            heading += f" · ARI {figures.number(index, 2)}"
        words = f"densest {int(grouped.counts.max())} · alone {int((grouped.counts == 1).sum())}"
        words += " · as in this run" if score == view.entry.config["importance"] and seed == 0 else ""
        if position and not view.lecture:
            words += f"  \ndensest {figures.flow(reference, grouped)}"
        with column:
            square(view, position, score, seed, grouped, heading, words, SQUARE if len(shown) > 2 else LARGE)


def square(
    view: View, position: int, score: str, seed: int, grouped: Neurons, heading: str, words: str, height: int
) -> None:
    """One cluster picture that can be picked in."""
    key = f"clusters-{score}" + (f"-{position}-{seed}" if view.look.pair else "")
    picked, marked = panels.picks_of(view, grouped, "pick"), panels.picks_of(view, grouped, "mark")

    following = view.look.panel == "cluster"

    def pick() -> None:
        points = session.points_in(key)
        rows = sorted({int(point["customdata"][0]) for point in points if "customdata" in point})
        if rows:
            # One neuron in the look at a cluster: its cluster is meant, too.
            with_cluster = (
                {"cluster": str(int(view.grouping().labels[rows[0]]))} if len(rows) == 1 and following else {}
            )
            LEVELS.change(pick=panels.text_of(grouped, rows), **with_cluster)

    mode = PICKING[session.recall("picking") or "click"]
    options: dict[str, Any] = {"score": score, "seed": seed} if view.analysis is not None else {}
    view.chart(
        key,
        heading,
        partial(view.neurons, score, seed),
        kind="clusters",
        below=words,
        picked=tuple(picked),
        marked=tuple(marked),
        height=height,
        whole=view.look.outliers,
        followed=tuple(panels.followed(view)),
        drag={"lasso": "lasso", "box": "select"}.get(mode),
        on_select=pick,
        selection_mode=("points",) if mode == "points" else ("points", mode),
        **options,
    )


def agreement_of(view: View, first: tuple[str, int], second: tuple[str, int]) -> float | None:
    """The index between two groupings: of one seed's pair where those are shown, else the mean over seeds."""
    if view.analysis is None:
        return None
    if view.look.pair:
        return index_of(view.grouping(*first).labels, view.grouping(*second).labels)
    names = {first[0], second[0]}
    return next((row["mean"] for row in view.analysis.agreement if {row["first"], row["second"]} == names), None)


def index_of(first: np.ndarray, second: np.ndarray) -> float:
    """Adjusted Rand index of two groupings, by the library's own code."""
    import torch

    from retrofit_core.grouping import adjusted_rand

    return float(adjusted_rand(torch.from_numpy(first), torch.from_numpy(second)))
