"""The five steps inside a level; grouping has its own file."""

import numpy as np
import streamlit as st

from retrofit_app import figures, runs, widgets
from retrofit_app.figures import Neurons, escaped, title
from retrofit_app.models import sources
from retrofit_app.runs import methods
from retrofit_app.widgets import pictures, readings

from .grouping import grouping
from .parameters import LEVELS
from .view import View


def activations(view: View) -> None:
    """Draw how the neurons respond."""
    st.markdown(
        "Neurons that respond alike to the same samples are close together, whichever network they come from. They are worth "
        "merging."
    )
    view.chart("activations")


def importance(view: View) -> None:
    """Draw how much each neuron counts."""
    st.markdown(
        "Importance says how much of a network's decisions pass through a neuron. It weighs the neuron in its group and in every "
        "error."
    )
    columns = st.columns(len(view.scores)) if len(view.scores) > 1 else [st.container()]
    for column, score in zip(columns, view.scores, strict=True):
        with column:
            heading = f"**{escaped(title(score))}**" + (" (this run)" if score == methods.score(view.entry) else "")
            view.chart("scores", heading, key=f"scores-{score}", score=score)
    view.missing()


def targets(view: View) -> None:
    """Draw a fused neuron's target."""
    if "heads" in view.report.grouping:
        st.markdown(
            "Each fused head keeps the directions of its heads that matter most for where they attend. Such a direction, a "
            "mixture of all their neurons, is the target of a fused neuron."
        )
        return
    aligned = view.report.form == "aligned"
    st.markdown(
        "Each fused neuron has the mean of its group's weights. This method fits nothing, so there are no targets."
        if aligned
        else "Each group's target is the importance-weighted mean of its members' outputs. The fused neuron should reproduce it. "
        + view.far
    )
    if aligned:
        return
    run, neuron = readings.grouping(view.entry, view.index), int(view.look.neuron)
    if not view.lecture:
        one_neuron(run)
    try:
        view.chart("members", f"**{pictures.CHARTS['members'].question}** Group {neuron}", neuron=neuron)
    except (OSError, ValueError, KeyError) as error:
        text = runs.without_folders(error, sources.located(sources.source_of(view.entry).data), view.entry.base)
        widgets.why(f"The outputs are not shown: {text}")
        return
    if not view.lecture:
        st.caption(
            "Each sample is a test image; of convolutions and tokens, a position drawn at random. The fusion uses all positions "
            "of the fusion samples."
        )


def one_neuron(run: Neurons) -> None:
    """Draw the choice of a group, and so of its fused neuron."""
    ranked = np.argsort(-run.counts, kind="stable").tolist()
    st.selectbox(
        "A group of the run",
        [str(neuron) for neuron in ranked],
        **LEVELS.control("neuron"),
        width=260,
        format_func=lambda neuron: (
            f"{neuron}{run.class_of(int(neuron))} · {run.counts[int(neuron)]} member"
            f"{'' if run.counts[int(neuron)] == 1 else 's'}"
        ),
        help="Each group of the run becomes one neuron of the fused network. The largest groups come first.",
    )


def fit(view: View) -> None:
    """Draw how the weights were found, and how close one fused neuron comes to its target."""
    report = view.report
    if report.form == "aligned":
        st.markdown(
            "This method fits nothing: it averages the networks' weights group by group, so there are no targets and no "
            "approximation error."
        )
        return
    how = "Gradient descent finds" if report.form == "gradient" else "A closed form gives"
    st.markdown(
        f"{how} the weights that bring the fused level close to its targets. The approximation error is the distance that "
        "remains."
        if methods.is_fitted(view.entry)
        else "Nothing is fitted in this run: each fused neuron gets the mean of its group's weights. The approximation error is "
        "the distance of its output from the target."
    )
    for words in filter(None, (figures.group_words(report), figures.stream_words(report))):
        st.markdown(words)
    drawn = [lambda: view.chart("curve")] * bool(report.curve) + [lambda: detail(view)] * (view.analysis is not None)
    if not drawn:
        widgets.why("The analysis contains outputs and targets. This run has no analysis.")
    for column, draw in zip(st.columns(2, gap="large"), drawn, strict=False):
        with column:
            draw()


def detail(view: View) -> None:
    """Draw one fused neuron's output against its target."""
    if not view.lecture:
        one_neuron(readings.grouping(view.entry, view.index))
    neuron = int(view.look.neuron)
    view.chart("fit", f"**{pictures.CHARTS['fit'].question}** Fused neuron {neuron}", neuron=neuron)


DRAWN = {"activations": activations, "importance": importance, "grouping": grouping, "targets": targets, "fit": fit}
