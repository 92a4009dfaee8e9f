"""Which neurons are merged: a ribbon into groups, or the neurons' plane under every score."""

import streamlit as st

from retrofit_app import figures, widgets
from retrofit_app.figures import escaped, title
from retrofit_app.runs import methods
from retrofit_app.widgets import controls, pictures, readings

from .parameters import LEVELS, VIEWS
from .view import View


def grouping(view: View) -> None:
    """Draw the chosen view, and its picked neurons."""
    report = view.report
    classes = ", one for each class" if view.joins_classes else ""
    st.markdown(
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
    if not view.lecture:
        with st.container(horizontal=True, gap="medium", key="toolbar"):
            controls.switch(LEVELS, "view", "Picture", VIEWS)
            if len(view.scores) > 1 and view.look.view == "ribbon":
                controls.switch(LEVELS, "score", "Importance score", {score: title(score) for score in view.scores})
    (ribbon if view.look.view == "ribbon" else planes)(view)
    if not view.lecture:
        agreement(view)
        view.missing()


def agreement(view: View) -> None:
    """Say how much the other scores' groups are like those of the run."""
    from sklearn.metrics import adjusted_rand_score

    own = readings.grouping(view.entry, view.index).labels
    each = [
        f"{title(score)} {figures.number(adjusted_rand_score(own, other.labels), 2)}"
        for score in view.scores
        if not view.of_run(score) and (other := readings.grouping(view.entry, view.index, score))
    ]
    if each:
        help = "1: the same groups; 0: no more alike than by chance. Notebook 51 compares scores with two seeds of one score."
        st.markdown(escaped(f"Adjusted Rand index with the groups of this run: {figures.listing(each)}."), help=help)


def ribbon(view: View) -> None:
    """Draw how the networks' neurons run into the chosen score's groups."""
    heading = f"**{pictures.CHARTS['ribbon'].question}**"
    if not view.of_run(view.look.score):
        heading += f" As {title(view.look.score)} would group them; the run used {title(methods.score(view.entry))}."
    reading = (
        "Bands are as wide as the importance that a network's neurons bring into a group; within a group, these are their shares "
        "of the target. The largest groups come first, small ones are bundled."
    )
    view.chart("ribbon", heading, reading=reading, score=view.look.score)


def planes(view: View) -> None:
    """Draw every score's groups in the neurons' plane."""
    hidden = figures.percent(100 * readings.grouping(view.entry, view.index).hidden, 0)
    st.markdown(
        f"**The neurons on two principal components, which hide {hidden} of their variance**",
        help="Neurons of one group may look far apart, and neurons that look close may differ: distances in the picture are not "
        "the method's.",
    )
    for column, score in zip(st.columns(len(view.scores)), view.scores, strict=True):
        with column:
            name = f"**{escaped(title(score))}**" + (" (this run)" if view.of_run(score) else "")
            view.chart("clusters", name, key=f"clusters-{score}", score=score)
    st.html(figures.cluster_key(len(view.report.widths), sum(view.report.widths), view.palette))
