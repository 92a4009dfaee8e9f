"""How ticked runs differ: their accuracies with intervals, and only the settings that differ."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from retrofit_app import figures, runs
from retrofit_app.figures import escaped
from retrofit_app.runs.settings import differing


def differences(ticks: Sequence[runs.Entry]) -> None:
    """Draw a row for each ticked run if there are several."""
    if len(ticks) < 2:
        if ticks:
            st.caption("Tick another run to see how they differ.")
        return
    st.header("How the ticked runs differ", anchor=False)
    table = differences_of(ticks)
    st.markdown(escaped(finding(ticks)))
    st.dataframe(
        table,
        hide_index=True,
        key="runs-differences",
        placeholder="–",
        alt=f"Ticked runs. {finding(ticks)}",
        column_config={
            "run": st.column_config.TextColumn("run", pinned=True, width=110),
            "accuracy": st.column_config.NumberColumn("accuracy", format="%.1f %%", width=86),
            "±": st.column_config.NumberColumn("±", format="%.1f", width=52, help="Half the 95 % interval, in points."),
            "to the best": st.column_config.TextColumn(
                "to the best", width=190, help="In points, with the 95 % interval of the difference."
            ),
        },
    )
    same = "All other settings are the same." if len(table.columns) > 4 else "All their settings are the same."
    st.caption(f"Only settings that differ are shown. {same}")


def differences_of(ticks: Sequence[runs.Entry]) -> pd.DataFrame:
    """Run, accuracy with interval, distance from the best, and every setting that differs."""
    images, best, least = _images(ticks), _best(ticks), _least(ticks)
    return pd.DataFrame(
        {
            "run": [entry.name for entry in ticks],
            "accuracy": [entry.accuracy for entry in ticks],
            "±": [
                None if entry.accuracy is None else figures.margin(entry.accuracy, images=count)
                for entry, count in zip(ticks, images, strict=True)
            ],
            "to the best": [
                _distance(entry, best, least) if best is not None and entry.accuracy is not None else None
                for entry in ticks
            ],
            **differing(ticks),
        }
    )


def finding(ticks: Sequence[runs.Entry]) -> str:
    """Whether one is clearly the best."""
    best, least = _best(ticks), _least(ticks)
    measured = [entry for entry in ticks if entry.accuracy is not None]
    if len({entry.config.get("data") for entry in ticks}) > 1:
        return "They were measured on different data sets, so their accuracies cannot be compared."
    if best is None or len(measured) < 2:
        return "Too few of them were measured to compare their accuracies."
    others = [entry for entry in measured if entry is not best]
    close = [
        entry.name for entry in others if not figures.difference(best.accuracy or 0, entry.accuracy or 0, least).clear
    ]
    if not close:
        return f"{best.name} is clearly the best, with {figures.percent(best.accuracy or 0)}."
    if len(close) == len(others):
        return f"No clear difference: {best.name} is ahead, but that may be chance."
    return f"{best.name} is ahead, but not clearly better than {figures.listing(close)}."


def _distance(entry: runs.Entry, best: runs.Entry, images: int) -> str:
    if entry is best:
        return "the best"
    lost = figures.difference(entry.accuracy or 0, best.accuracy or 0, images)
    return f"{lost.words}, {'clear' if lost.clear else 'may be chance'}"


def _best(ticks: Sequence[runs.Entry]) -> runs.Entry | None:
    """The most accurate measured run, if all share a data set."""
    measured = [entry for entry in ticks if entry.accuracy is not None]
    if not measured or len({entry.config.get("data") for entry in ticks}) > 1:
        return None
    return max(measured, key=lambda entry: entry.accuracy or 0)


def _images(ticks: Sequence[runs.Entry]) -> list[int]:
    """The number of images each result was measured on; 0 if unmeasured."""
    return [entry.metrics.get("networks", {}).get("fused", {}).get("samples", 0) for entry in ticks]


def _least(ticks: Sequence[runs.Entry]) -> int:
    """The least number of images of a measured run."""
    return min(
        (count for count, entry in zip(_images(ticks), ticks, strict=True) if entry.accuracy is not None), default=0
    )
