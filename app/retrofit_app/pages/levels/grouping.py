"""Which neurons are merged: a ribbon into groups, or the neurons' plane under every score; and how alike the groupings are."""

import streamlit as st

from retrofit_app import figures, widgets
from retrofit_app.address import neurons
from retrofit_app.figures import escaped, title
from retrofit_app.runs import methods
from retrofit_app.widgets import controls, pictures, readings

from .parameters import LEVELS, VIEWS
from .view import View

KEY = "clusters"  # the pictures' key


def grouping(view: View) -> None:
    """Draw the chosen view, its picked neurons, and how alike the groupings are."""
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
    if not view.lecture:
        with st.container(horizontal=True, gap="medium", key="toolbar"):
            controls.switch(LEVELS, "view", "Picture", VIEWS)
            if len(view.scores) > 1:
                controls.switch(LEVELS, "score", "Importance score", {score: title(score) for score in view.scores})
    (ribbon if view.look.view == "ribbon" else planes)(view)
    if not view.lecture:
        agreement(view)


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
    """Draw every score's groups in the neurons' plane, and a table of picked neurons."""
    hidden = figures.percent(100 * view.grouping().hidden, 0)
    st.markdown(
        f"**The neurons on two principal components, which hide {hidden} of their variance**",
        help="Neurons of one group may look far apart, and neurons that look close may differ: distances in the picture are not "
        "the method's.",
    )

    phone = "Mobi" in (st.context.headers.get("User-Agent") or "")
    for column, score in zip(st.columns(len(view.scores)), view.scores, strict=True):
        key = f"{KEY}-{score}"

        def pick(key: str = key) -> None:
            points = st.session_state[key]["selection"]["points"]
            if rows := [int(point["customdata"][0]) for point in points if "customdata" in point]:
                run = readings.grouping(view.entry, view.index)
                LEVELS.change(pick=neurons.text_of([(int(run.parents[row]), int(run.numbers[row])) for row in rows]))

        with column:
            view.chart(
                "clusters",
                f"**{escaped(title(score))}**" + (" (this run)" if view.of_run(score) else ""),
                key=key,
                score=score,
                picked=tuple(view.picked),
                lasso=not phone,
                select={"on_select": pick, "selection_mode": ("points", "lasso")},
            )
    st.html(figures.cluster_key(len(view.report.widths), sum(view.report.widths), view.palette))
    if not view.lecture:
        table(view)


def table(view: View) -> None:
    """Draw the picked neurons as a table."""
    if not view.picked:
        st.caption("Draw around neurons, or click one, to ring them in all pictures and list them here.")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{len(view.picked)} neuron{'s' * (len(view.picked) > 1)} picked**")
        st.button("Clear pick", key="clear", on_click=LEVELS.change, kwargs={"pick": ""}, icon=":material/close:")
    column = st.column_config.NumberColumn
    st.dataframe(
        readings.neuron_table(view.entry, view.index, *view.score_and_seed()).iloc[view.picked],
        hide_index=True,
        height=min(36 * len(view.picked) + 40, 220),
        alt=f"Neurons of level {view.report.name} with group and importance under {title(view.look.score)}.",
        column_config={
            "importance × mean": column(format="%.2f", help="Importance in multiples of the level's mean."),
            "distance": column(format="%.3g", help="Distance to the group's mean, in the picture."),
            "kept R²": column(
                format="%.2f", help="Share of the neuron's variance that its fused neuron explains in this run."
            ),
        },
    )


def agreement(view: View) -> None:
    """Draw how similar the scores' groupings are, compared with seeds: a sentence, then every index."""
    if view.analysis is None:
        widgets.why("The analysis contains the groupings of other scores. This run has no analysis.")
        return
    words = escaped(figures.agreement_words(view.analysis.agreement))
    if len(view.scores) > 1:
        with st.container(width=460):
            view.chart("agreement", f"**{pictures.CHARTS['agreement'].question}** {words}", below="")
    else:
        st.markdown(words)
    view.missing()
