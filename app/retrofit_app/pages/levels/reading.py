"""How to read the page: all that a sentence over the pictures leaves out, behind one button."""

import streamlit as st

from retrofit_app.figures import percent
from retrofit_app.widgets import readings
from retrofit_app.widgets.readings import Overview

from .view import View

NETWORK = (
    "**The drawn network.** The networks on the left, with one slice a level, flow into the fused one, with one block a level. "
    "A block is as high as the level is wide (by square roots), as dark as its error is large, and carries that error in per "
    "cent of its neurons' energy; hatched: most of it is approximation. The line above is the accuracy if the fusion stopped "
    "after that level; it begins with the ensemble, all networks side by side. A click on a level, J, K, Home and End go there."
)
STEPS = {
    "activations": (
        "**Activations.** The networks see the same samples, and each neuron answers with {rows:,} numbers. Two neurons that "
        "answer alike lie close together; their network is their shape and colour. Dead neurons lie at one spot, and cost "
        "nothing."
    ),
    "importance": (
        "**Importance.** A score says how much of a network's decisions passes through a neuron. It weighs the neuron when "
        "groups are formed and when errors are added up, so that a neuron that nobody listens to may be lost. *Uniform* counts "
        "all alike."
    ),
    "grouping": (
        "**Grouping.** Each group becomes one neuron of the fused network. Black (white on dark pages) is the largest group of "
        "this run, five colours are the next largest ones, and under every other score the same colour is the group that "
        "shares most members with it; lines join the members of a group. A neuron's shape is its network, its area its "
        "importance. Alone: a group of one. Open marks on the border lie outside the frame.\n\n"
        "**The plane.** Every picture of this level has the same axes: the first two principal components of neurons' outputs "
        "on the fusion samples, computed for this level alone. They hide {hidden} of the variance, so neurons of one cluster may "
        "look far apart, and neurons that look close may differ.\n\n"
        "**ARI.** The adjusted Rand index says how alike two groupings are: 1 the same groups, 0 no more alike than by chance, "
        "below 0 (down to −0.5) less than chance. On the diagonal of the matrix one score is grouped again from other seeds: "
        "mean, and least to most. That is the noise floor: two scores only differ where their index lies below it. A click on a "
        "cell shows its two groupings side by side."
    ),
    "targets": (
        "**Targets.** What a group's members do not share cannot be answered by one neuron. A parent's neuron keeps what the "
        "one answer tells about its own, R² = 1 being everything. On the right: what one fused neuron should put out, against "
        "what the fitted one does."
    ),
    "fit": (
        "**Fit.** The fused level's inputs are the fused outputs of the level below, so an error goes on upwards. On the right "
        "the level's own loss on a plane through three points of its weights: ★ the fitted ones, ● ◆ those of two networks, "
        "mapped onto the fused inputs. Dark is low loss; the scale is logarithmic, and exact on this plane."
    ),
}


def how_to_read(view: View, overview: Overview, step: str) -> None:
    """The box with what the drawn network and the step's pictures mean."""
    hidden = max(0.0, 100 * (1 - float(view.report.explained[:2].sum())))
    with st.popover("How to read this", icon=":material/help:", type="tertiary", key="how-to-read"):
        st.markdown(f"{NETWORK} {readings.accuracy_words(view.entry, overview)}".rstrip())
        st.markdown(STEPS[step].format(rows=view.report.rows, hidden=percent(hidden)))
