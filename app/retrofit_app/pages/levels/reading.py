"""How to read the page: what the sentences over the pictures leave out, unfolded by a button."""

import streamlit as st

from retrofit_app.figures import percent
from retrofit_app.runs.levels import Overview, accuracy_words
from retrofit_app.shell import navigation

from .view import View

#: Where the page Learn explains each step.
LEARNED = {"activations": "step=3", "importance": "step=5", "grouping": "step=4", "targets": "step=6", "fit": "step=7"}
NETWORK = (
    "**The levels.** A bar shows how many points of accuracy the fusion of a level loses (down) or regains (up): the accuracy if "
    "the fusion stopped after it, minus that before. The start is the ensemble, all networks side by side (their logits centred, "
    "if the run centres them). Whiskers are 95 % intervals, paired image by image; a bar is pale if chance may explain it. The "
    "row below is the level's error in per cent of its neurons' energy; from 12 levels on, a closed block shows its largest. "
    "Click a level or block to open it, or press J, K, Home or End."
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
        "**Grouping.** Each group becomes one neuron of the fused network. In the ribbon, a band is as wide as the importance "
        "that a network's neurons bring into a group. Black (white on dark pages) marks the largest group of this run, and five "
        "colours the next largest; under another score the same colour marks the group that shares most members.\n\n"
        "**The plane.** The first two principal components of the neurons' outputs on the fusion samples hide {hidden} of the "
        "variance, so neurons of one group may look far apart, and neurons that look close may differ. A neuron's shape shows "
        "its network, its area its importance. A stroke outwards marks one outside the frame."
    ),
    "targets": (
        "**Targets.** Each mark is one member's output on one sample. Shape and colour show its network, and the legend says how "
        "much it counts. The line is their weighted mean, the target. One fused neuron cannot reproduce what the members do not "
        "share: the weighted squares of the distances from the line are the grouping error."
    ),
    "fit": (
        "**Fit.** The fused level reads the fused outputs of the level below, so errors pass upwards. R² says how much of its "
        "target a fused neuron explains; 1 is everything."
    ),
}


def how_to_read(view: View, overview: Overview, step: str) -> None:
    """Explain the picture of all levels and that of the step, between the two."""
    hidden = max(0.0, 100 * (1 - float(view.report.explained[:2].sum())))
    with st.container(key="reading"):
        navigation.link("learn", f"Learn: {step} on small networks", "Your browser fuses them live.", at=LEARNED[step])
        drawn = f"{NETWORK} {accuracy_words(view.entry, overview)}".rstrip()
        st.markdown(f"{drawn}\n\n{STEPS[step].format(rows=view.report.rows, hidden=percent(hidden))}")
