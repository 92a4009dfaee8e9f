"""After the grouping: what each fused neuron is asked to do, and how its weights are found."""

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from retrofit_app import figures, widgets
from retrofit_app.address import session
from retrofit_app.widgets import readings

from .parameters import LEVELS
from .view import View


def targets(view: View) -> None:
    """What each group's fused neuron is asked to do, and what the parents keep by that."""
    aligned = view.report.form == "aligned"
    made = (
        "The fused neuron's weights are the mean of its group's; nothing is fitted to the mean of its answers"
        if aligned
        else "Each group's target is the importance-weighted mean of what its members answer: the fused neuron should answer that"
    )
    view.say(f"{made}.")
    if view.analysis is None:
        widgets.why("What neurons keep, and the targets, are part of the analysis, which this run does not have.")
        return
    left, right = st.columns(2, gap="large")
    with left:
        view.chart("kept", "**What do neurons keep?**", view.neurons)
    with right:
        detail(view)


def detail(view: View) -> None:
    """One fused neuron: its members, and its output against its target."""
    grouped, neuron = readings.grouping(view.entry, view.index), int(view.look.neuron)
    ranked = np.argsort(-grouped.counts, kind="stable").tolist()
    rows_table = pd.DataFrame({"target": view.analysis.targets[:, neuron], "output": view.analysis.outputs[:, neuron]})
    heading = "**Does it reach its target?**"
    if view.lecture:
        view.chart("fit", f"{heading} Fused neuron {neuron}", lambda: rows_table, neuron=neuron)
        return
    st.selectbox(
        "One fused neuron in detail",
        [str(neuron) for neuron in ranked],
        **LEVELS.control("neuron"),
        format_func=lambda neuron: (
            f"{neuron} · {grouped.counts[int(neuron)]} member{'' if grouped.counts[int(neuron)] == 1 else 's'}"
        ),
        help="Each cluster of the run becomes one neuron of the fused network. The largest come first.",
    )
    rows = np.flatnonzero(grouped.labels == neuron)
    named = ", ".join(grouped.names[row] for row in rows[: readings.MEMBERS]) + (
        "…" if len(rows) > readings.MEMBERS else ""
    )
    st.markdown(f"{figures.members_words(grouped, neuron)} {named}")
    view.chart("fit", heading, lambda: rows_table, neuron=neuron)


def fit(view: View) -> None:
    """How the weights were found, and what is left."""
    report = view.report
    if report.form == "aligned":
        st.markdown(
            "Nothing is fitted by this method: the networks' weights are averaged group by group, so there are no "
            "targets and no approximation error."
        )
        return
    how = (
        "are trained by gradient descent towards the targets"
        if report.form == "gradient"
        else "are solved for in closed form"
    )
    view.say(f"The weights of the fused level {how}; what is missing then is the approximation error.")
    for words in filter(None, (figures.group_words(report), figures.stream_words(report))):
        st.markdown(words)
    left, right = st.columns(2, gap="large")
    with left:
        if report.curve:
            view.chart(
                "curve",
                "**How did the fit go?**",
                lambda: pd.DataFrame(report.curve),
                log=bool(session.first_time("log", True)),
            )
            if not view.lecture:
                st.toggle(
                    "Logarithmic loss",
                    key="log",
                    persist_state="session",
                    help="Equal steps are equal factors: small losses can be told apart.",
                )
        else:
            view.chart(
                "residual",
                "**What is left?** Closed form, no curve",
                lambda: residual_table(report),
            )
    with right:
        plane(view)
    if view.analysis is not None and not view.lecture:
        with right if report.curve else left:  # the shorter one
            detail(view)


def residual_table(report: Any) -> pd.DataFrame:
    """Errors of a level as shares of its energy."""
    names = ["grouping_error", "approximation_error", "unavoidable_error"]
    names += [] if np.isnan(report.missing_error) else ["missing_error"]
    shares = [100 * getattr(report, name) / (report.energy or 1) for name in names]
    return pd.DataFrame({"error": [name.replace("_", " ") for name in names], "per cent of energy": shares})


def plane(view: View) -> None:
    """The level's loss around its weights."""
    heading = "**The level's own loss around its weights**"
    if view.analysis is None or "quadratic" not in view.analysis.plane:
        st.markdown(heading)
    if view.analysis is None:
        widgets.why("The loss around the weights is part of the analysis, which this run does not have.")
    elif "quadratic" not in view.analysis.plane:
        widgets.why(f"No picture: {view.analysis.plane.get('why', 'it was not computed for this level.')}")
    else:
        view.chart("plane", heading, lambda: pd.DataFrame(view.analysis.plane["marks"]))
