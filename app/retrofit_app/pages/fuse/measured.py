"""Each network's accuracy: bars with intervals, and a grid of classes."""

from typing import Any

import pandas as pd
import streamlit as st

from retrofit_app import figures, runs, widgets
from retrofit_app.figures import Network
from retrofit_app.runs import compared, methods
from retrofit_app.widgets.errors import guarded


@st.fragment
@guarded
def accuracies(entry: runs.Entry, entries: list[runs.Entry], palette: figures.Palette) -> None:
    """Draw the accuracy of parents, ensemble, average and fused networks, in total and class by class."""
    networks = entry.metrics.get("networks")
    if not networks:
        return
    st.header("How good is each network?", anchor=False)
    rows = measured(entry, entries)
    shown, classes = [row for row, _ in rows], entry.metrics["classes"]

    def table() -> pd.DataFrame:
        return pd.DataFrame(
            [
                {
                    "network": row.name,
                    "accuracy %": row.accuracy,
                    "±": figures.margin(row.accuracy, images=row.samples),
                    "loss": facts["loss"],
                    "calibration error": facts["calibration_error"],
                }
                for row, facts in rows
            ]
        )

    def by_class() -> pd.DataFrame:
        return pd.DataFrame([{"network": row.name, **dict(zip(classes, row.per_class, strict=True))} for row in shown])

    left, right = st.columns([2, 3], gap="medium")
    with left:
        widgets.chart(
            "accuracy",
            lambda colours: figures.accuracy_bars(shown, colours),
            palette,
            table,
            entry,
            heading="**Accuracy** on the test images",
            below="",
        )
    with right:
        widgets.chart(
            "per-class",
            lambda colours: figures.class_grid(shown, classes, colours),
            palette,
            by_class,
            entry,
            heading="**Accuracy per class**, in per cent",
            below="",
        )
    hatched = (
        "Hatched: the ensemble (all networks side by side) and the plain average of the weights. "
        if any(row.role == "reference" for row in shown)
        else ""
    )
    st.caption(
        f"Whiskers: 95 % intervals. Teal: fused networks of one network's size; the open one has a frame. {hatched}The menu (⋯) "
        "of the bars also has losses and calibration errors (the mean gap between confidence and accuracy over 15 bins; 0 is "
        "best)."
    )


def measured(entry: runs.Entry, entries: list[runs.Entry]) -> list[tuple[Network, dict[str, Any]]]:
    """The accuracy figures' rows: this run's networks, and shipped fusions of the same parents."""
    networks = entry.metrics["networks"]
    rows = [(row.name, row.role, row.each[0], False) for row in compared.references(entry)]
    same = [
        other
        for other in entries
        if other.shipped
        and other.metrics
        and other.networks == entry.networks
        and other.config.get("data") == entry.config.get("data")
    ]
    rows += [
        (other.config["method"], "fused", other.metrics["networks"]["fused"], other.name == entry.name)
        for other in same
    ]
    if entry.name not in [other.name for other in same]:
        rows.append(
            (
                f"this run: {entry.config['method']}" if same else entry.config["method"],
                "reference" if methods.keeps_parents(entry) else "fused",
                networks["fused"],
                True,
            )
        )
    return [
        (Network(name, role, facts["accuracy"], facts["per_class"], chosen, facts["samples"]), facts)
        for name, role, facts, chosen in rows
    ]
