"""How to read the page: what the sentences over the pictures leave out, unfolded by a button."""

import streamlit as st

from retrofit_app.figures import percent
from retrofit_app.runs.levels import Overview, accuracy_words
from retrofit_app.shell import navigation

from .view import View

#: Where the page Learn explains each step.
LEARNED = {"activations": "step=3", "importance": "step=5", "grouping": "step=4", "targets": "step=6", "fit": "step=7"}
NETWORK = (
    "**The drawn network.** The networks on the left, with a slice for each level, flow into the fused one, with a block for "
    "each level. A block's height shows the width of the level (its square root; the slices are on a smaller scale), and its "
    "shade and number show the error in per cent of its neurons' energy. A hatched block's error is mostly approximation. The "
    "line above is the accuracy if the fusion stopped after that level; it starts with the ensemble, all networks side by "
    "side (their logits centred, if the run centres them). Click a level to open it, or press J, K, Home or End."
)
STEPS = {
    "activations": (
        "**Activations.** The networks see the same samples, and each neuron responds with {rows:,} numbers. "
        "Neurons that respond alike are close together. Shape and colour show the network. A few neurons at the "
        "same spot are drawn side by side. "
        "Dead neurons are all at one spot and cost nothing."
    ),
    "importance": (
        "**Importance.** A score says how much of a network's decisions pass through a neuron. It weighs the neuron when groups "
        "are formed and when errors are added up, so that a neuron that decides nothing may be lost. *Uniform* gives all neurons "
        "the same weight."
    ),
    "grouping": (
        "**Grouping.** Each group becomes one neuron of the fused network. Black (white on dark pages) marks the largest group "
        "of this run, and five colours mark the next largest ones. Under another score the same colour marks the "
        "group that "
        "shares most members with it. Lines join the members of a group. A neuron's shape shows its network, and its area its "
        "importance. A neuron alone is a group of one. Hollow marks on the border are outside the frame. A few "
        "neurons at the same spot are drawn side by side.\n\n"
        "**The plane.** Every picture of this level has the same axes: the first two principal components of the neurons' "
        "outputs on the fusion samples, computed for this level alone. They hide {hidden} of the variance, so neurons of one "
        "group may look far apart, and neurons that look close may differ.\n\n"
        "**ARI.** The adjusted Rand index says how alike two groupings are: 1 for the same groups, 0 for no more than chance, "
        "and below 0 (down to −0.5) for less than chance. Each number is a mean over seeds. Beside it in brackets, and on the "
        "matrix's diagonal, are two seeds of one score. That is the noise floor: two scores differ only if their index is below "
        "its range. Click a cell to see two of its groupings side by side."
    ),
    "targets": (
        "**Targets.** Each mark is one member's output on one sample. Shape and colour show its network, and the legend says how "
        "much it counts. The line is their weighted mean, the target. One fused neuron cannot reproduce what the members do not "
        "share: the weighted squares of the distances from the line are the grouping error."
    ),
    "fit": (
        "**Fit.** The fused level reads the fused outputs of the level below, so errors pass upwards. The right picture shows "
        "the approximation error on a plane through three points of the level's weights: ★ the fused ones, ● ◆ those of two "
        "networks, mapped onto the fused inputs. Dark is low. The scale is logarithmic, and exact on this plane.\n\n"
        "R² says how much of a parent's neuron the fused one explains; 1 is everything. Beside it is the output of one fused "
        "neuron against its target."
    ),
}


def how_to_read(view: View, overview: Overview, step: str) -> None:
    """Explain the drawn network and the step's pictures, between the two."""
    hidden = max(0.0, 100 * (1 - float(view.report.explained[:2].sum())))
    with st.container(key="reading"):
        navigation.link("learn", f"Learn: {step} on small networks", "Your browser fuses them live.", at=LEARNED[step])
        drawn = f"{NETWORK} {accuracy_words(view.entry, overview)}".rstrip()
        st.markdown(f"{drawn}\n\n{STEPS[step].format(rows=view.report.rows, hidden=percent(hidden))}")
