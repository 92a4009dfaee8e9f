"""Which neurons are merged: a picture for each score, or two groupings side by side."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st

from retrofit_app import figures, widgets
from retrofit_app.figures import title
from retrofit_app.figures.picture import LECTURE
from retrofit_app.runs import methods
from retrofit_app.widgets import neurons, readings
from retrofit_app.widgets.neurons import Grouped

from . import panels
from .parameters import LEVELS
from .view import LINE, WITH_KEY, View

KEY = "clusters"  # the pictures' key
SQUARE, LARGE = 260, 400  # px, the height of three cluster pictures, and of two side by side


def grouping(view: View) -> None:
    """Draw the pictures, their picked neurons, and how alike the groupings are."""
    report = view.report
    classes = ", one for each class" if view.joins_classes else ""
    view.say(
        f"The {sum(report.widths)} neurons become {report.width} groups{classes}. What a group's members do not share is the "
        f"grouping error. {view.far}"
    )
    if (words := figures.group_words(report)) and not view.lecture:
        tied = report.grouping.keys() & {"heads", "parts", "kinds"}  # in a stream, each score has its own groups
        st.markdown(f"{words} All scores are shown with these groups." if tied else words)
    if report.width == 1:
        widgets.why("This level has one group, with every neuron in it, so there is nothing to colour.")
    if len(set(report.labels.tolist())) == len(report.labels):
        widgets.why("Nothing is merged here: there are as many groups as neurons.")
    phone = "Mobi" in (st.context.headers.get("User-Agent") or "")
    st.session_state.setdefault("picking", "click" if phone else "lasso")
    groupings = squares(view)
    if not view.lecture:
        controls(view, groupings)
    draw(view, groupings)
    st.html(figures.cluster_key(len(report.widths), sum(report.widths), view.palette))
    if view.lecture:
        return
    panels.show_picked(view)
    panels.agreement(view)


def controls(view: View, groupings: Sequence[Grouped]) -> None:
    """Draw one toolbar: compared groupings, how to pick neurons, and the frame."""
    # With labels, because a control's help is beside its label.
    with st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall", key="toolbar"):
        if view.pairs:
            st.selectbox(
                "Show",
                ["", *view.pairs],
                **LEVELS.control("pair"),
                width=210,
                format_func=lambda pair: panels.pair_words(view, pair) if pair else "all scores",
                help="All scores, or two groupings in larger pictures. Two seeds of one score show what chance alone does.",
            )
        st.segmented_control(
            "Pick neurons by",
            neurons.MODES,
            key="picking",
            persist_state="session",
            required=True,
            help="With lasso or box, draw around neurons. A click picks one neuron, Shift adds to the picked ones, and Escape "
            "clears them. Choose click to scroll the page with a finger. By keyboard: Tab goes to a picture, the arrows go "
            "through groups (up, down) and neurons, Enter picks the neuron, and Space its group. Picked neurons have a ring "
            "under every score, and a table below lists them.",
        )
        st.toggle(
            "Outliers",
            **LEVELS.control("outliers"),
            help="Widens the frame until every neuron is inside. Otherwise those outside are on its border.",
        )


def squares(view: View) -> list[Grouped]:
    """One picture per grouping, with heading and text below."""
    pairs = panels.compared(view)
    run = readings.grouping(view.entry, view.index)
    twice = len({score for score, _ in pairs}) < len(pairs)  # two seeds of one score
    off = neurons.off_scale(view.entry, view.index, view.look.outliers)
    groupings = []
    for position, (score, seed) in enumerate(pairs):
        grouped = view.grouping(score, seed)
        of_run = score == methods.score(view.entry) and seed == 0
        note = f", {f'other seed {seed}' if seed else 'the run’s seed'}" if twice else ""
        if of_run and not (view.look.pair and position):
            note += " · as in this run"
        elif view.analysis is not None and (position or not view.look.pair):
            other = pairs[0][0] if view.look.pair else methods.score(view.entry)
            note += f" · {figures.index_words(view.analysis.agreement, other, score)}".removesuffix(" · ")
        words = sizes_words(grouped.counts)
        if off:
            words += f" {off} outside the frame {'is' if off == 1 else 'are'} on its border, with a stroke outwards."
        if not of_run and run.densest is not None and run.counts.min() < run.counts.max():
            words += f" Of the run’s largest group, {figures.flow(run, grouped)}."
        chosen = view.score_and_seed(score, seed)
        groupings.append(
            Grouped(
                f"{KEY}-{score}" + (f"-{position}-{seed}" if view.look.pair else ""),
                *chosen,
                name=title(score),
                note=note,
                bold=bool(view.look.pair) or score == view.look.score,
                selects=not (view.look.pair or view.lecture) and len(view.scores) > 1,
                words="" if view.lecture else words,
            )
        )
    return groupings


def sizes_words(counts: np.ndarray) -> str:
    """The largest group and the lone neurons, or the size that all groups share.

    Args:
        counts: (K,) members of each group.
    """
    most = int(counts.max())
    if most == counts.min():  # as pairs are, and a head's groups
        return f"Every group has {most} neuron{'' if most == 1 else 's'}."
    alone = int((counts == 1).sum())
    return f"Largest group: {most} neurons; {alone} {'is' if alone == 1 else 'are'} alone."


def draw(view: View, groupings: Sequence[Grouped]) -> None:
    """Draw the pictures side by side, with a common frame."""
    height = SQUARE if len(groupings) > 2 else LARGE
    neurons.pictures(
        KEY,
        view.entry,
        view.index,
        groupings,
        looks(view),
        mode=st.session_state.get("picking") or "click",
        height=view.tall(WITH_KEY - LINE * bool(view.far)) if view.lecture else height,
        scale=LECTURE * view.lecture if view.lecture else 1.0,
        on_pick=partial(pick, view),
        on_score=lambda score: LEVELS.change(score=score),
    )


def looks(view: View) -> neurons.Looks:
    """The level's picked and marked neurons."""
    return neurons.Looks(
        tuple(view.rows("pick")),
        tuple(view.rows("mark")),
        view.look.outliers,
    )


def pick(view: View, rows: list[int]) -> None:
    """Pick neurons."""
    run = readings.grouping(view.entry, view.index)
    LEVELS.change(pick=panels.text_of(run, rows))
