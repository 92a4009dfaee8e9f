"""Who is merged with whom: a picture for each score, or two groupings beside each other."""

from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from retrofit_app import figures, widgets
from retrofit_app.address import session
from retrofit_app.figures import Neurons, escaped, title
from retrofit_app.widgets import readings

from . import panels
from .parameters import LEVELS
from .view import View

PICKING = {"lasso": "lasso", "box": "box", "click": "points"}
SQUARE, LARGE = 300, 400  # px, the height of a cluster picture: of three, and of two beside each other


def grouping(view: View) -> None:
    """The pictures, what is chosen in them, and a closer look at one thing."""
    report = view.report
    grouped = readings.grouping(
        view.entry, view.index
    )  # as the run grouped them; its score need not be among the analysed ones
    alike = "that stand for one class each" if view.last and figures.same_numbers(grouped) else "that respond alike"
    view.say(
        f"The {sum(report.widths)} neurons become {report.width} groups {alike}; what a group's members do not share is the "
        "grouping error."
    )
    if report.width == 1:
        widgets.why("This level has one cluster: every neuron is in it, and colours have nothing to tell apart.")
    if len(set(report.labels.tolist())) == len(report.labels):
        widgets.why("Nothing is merged here: as many groups as neurons.")
    phone = "Mobi" in (st.context.headers.get("User-Agent") or "")
    session.first_time("picking", "click" if phone else "lasso")
    if not view.lecture:
        controls(view)
    squares(view)
    st.html(figures.cluster_key(len(report.widths), sum(report.widths), view.palette))
    if view.lecture:
        return
    panels.show_picked(view)
    panels.panel(view)


def controls(view: View) -> None:
    """One toolbar: whose grouping and which start is looked at, which are compared, how neurons are picked."""
    pairs = panels.pairs(view.analysis, view.scores)
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="toolbar"):
        if len(view.scores) > 1:
            st.selectbox(
                "Score",
                view.scores,
                **LEVELS.control("score"),
                format_func=lambda score: f"Score: {title(score)}",
                label_visibility="collapsed",
                width=170,
                help="Whose grouping the tables below follow: the one with the bold name. The pictures show all of them.",
            )
        seeds = len(view.analysis.labels[view.look.score]) if view.analysis is not None else 1
        if seeds > 1:
            st.selectbox(
                "Seed",
                [str(seed) for seed in range(seeds)],
                **LEVELS.control("seed"),
                label_visibility="collapsed",
                width=140,
                format_func=lambda seed: "Seed: the run's" if seed == "0" else f"Seed: other {seed}",
                help="The same neurons grouped again with another start: what changes now is chance, not the score.",
            )
        if pairs:
            st.selectbox(
                "Side by side",
                ["", *pairs],
                **LEVELS.control("pair"),
                label_visibility="collapsed",
                width=220,
                format_func=lambda pair: panels.pair_words(view, pair) if pair else "Show: all scores",
                help="All scores, or any two groupings in larger pictures. Two seeds of one score show what chance alone does.",
            )
        st.segmented_control(
            "Pick neurons by",
            list(PICKING),
            key="picking",
            persist_state="session",
            required=True,
            label_visibility="collapsed",
            help="Lasso or box: draw around neurons. Click: one at a time, and a finger scrolls the page as usual. The picked "
            "ones have a ring under every score and at every level; the table below lists them.",
        )
        st.toggle(
            "Outliers",
            **LEVELS.control("outliers"),
            help="Widen the frame until every neuron is inside. Otherwise those outside stand open on its border.",
        )


def squares(view: View) -> None:
    """One cluster picture per grouping, side by side, with a common frame."""
    shown = panels.compared(view)
    run = readings.grouping(view.entry, view.index)
    columns = st.columns(len(shown), gap="small") if len(shown) > 1 else [st.columns([1, 1])[0]]
    for position, (column, (score, seed)) in enumerate(zip(columns, shown, strict=True)):
        grouped = view.grouping(score, seed)
        of_run = score == view.entry.config["importance"] and seed == 0
        name = escaped(title(score))
        heading = f"**{name}**" if view.look.pair or score == view.look.score else name
        if len({name for name, _ in shown}) < len(shown):  # twice the same score
            heading += f", {'other ' if seed else 'the run’s '}seed" + (f" {seed}" if seed else "")
        if view.look.pair and position:
            index = index_of(view.grouping(*shown[0]).labels, grouped.labels)
            heading += f" · ARI {figures.number(index, 2)} to the left one"
        elif of_run:
            heading += " · as in this run"
        elif view.analysis is not None and not view.look.pair:
            heading += f" · ARI {figures.number(index_of(run.labels, grouped.labels), 2)} to the run’s"
        words = f"largest {int(grouped.counts.max())} · alone {int((grouped.counts == 1).sum())}"
        words += "" if of_run else f" · the run’s largest {figures.flow(run, grouped)}"
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
        below="" if view.lecture else words,
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


def index_of(first: np.ndarray, second: np.ndarray) -> float:
    """Adjusted Rand index of two groupings, by the library's own code."""
    import torch

    from retrofit_core.grouping import adjusted_rand

    return float(adjusted_rand(torch.from_numpy(first), torch.from_numpy(second)))
