"""Class by class: which parent's knowledge survived."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from retrofit_app import widgets
from retrofit_app.figures import Network, Palette, escaped
from retrofit_app.figures.classes import class_sources, forgotten
from retrofit_app.runs.compared import Group, Row

MOST = 20  # most networks in one picture


def by_class(groups: Sequence[Group], palette: Palette, origin: widgets.Several) -> None:
    """Draw a picture for each set of parents with measured networks."""
    measured = [group for group in groups if group.parents and any(row.n for row in group.rows)]
    if not measured:
        return
    st.header("What came from whom?", anchor=False)
    for index, group in enumerate(measured):
        _picture(group, palette, origin, f"{index}" if len(measured) > 1 else "", len(measured) > 1)


def _picture(group: Group, palette: Palette, origin: widgets.Several, number: str, several: bool) -> None:
    parents = [_network(row) for row in group.parents]
    fused = [_network(row) for row in group.rows if row.n][:MOST]
    classes = group.classes

    def table() -> pd.DataFrame:
        rows = [{"network": one.name, **dict(zip(classes, one.per_class, strict=True))} for one in [*parents, *fused]]
        return pd.DataFrame(rows)

    widgets.chart(
        f"classes{number}",
        lambda colours: class_sources(parents, fused, classes, colours),
        palette,
        origin,
        heading=f"**Accuracy per class**, in per cent{f': {escaped(group.title)}' if several else ''}",
        below=escaped(forgotten(fused, parents, classes)),
    )


def _network(row: Row) -> Network:
    return Network(row.name, row.role, row.accuracy or 0.0, row.per_class)
