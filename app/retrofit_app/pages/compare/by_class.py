"""Class by class: which parent's knowledge survived, and which classes are confused."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from retrofit_app import widgets
from retrofit_app.figures import Network, Palette, escaped
from retrofit_app.figures.classes import class_sources, confusion_matrix, forgotten
from retrofit_app.models import predictions
from retrofit_app.runs.compared import FUSED, SEED, Group, Row

from . import parameters
from .parameters import COMPARE

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


# --- confusion matrices ---------------------------------------------------------------------------


def mistakes(groups: Sequence[Group], palette: Palette, origin: widgets.Several) -> None:
    """Draw two confusion matrices side by side, on request."""
    rows = {
        f"{row.id}{f' of {group.title}' if row.role != FUSED and len(groups) > 1 else ''}": (group, row)
        for group in groups
        for row in group.every
    }
    if not rows:
        return
    box = st.expander(
        "Which classes are mistaken for which?", icon=":material/grid_on:", key="mistakes", on_change="rerun"
    )
    names = list(rows)
    if not box.open:
        return
    with box:
        default = (names[0], names[1] if len(names) > 1 else names[0])
        pair = parameters.pair("left", "right", names, default, "network of this comparison")
        for name, label, chosen, column in zip(
            ("left", "right"), ("Network", "and"), pair, st.columns(2, gap="medium"), strict=True
        ):
            with column:
                st.selectbox(
                    label,
                    names,
                    **COMPARE.control(name),
                    format_func=lambda each: rows[each][1].name,
                    help="A network of the table above; of several seeds, the first.",
                )
                _matrix(*rows[chosen], name, palette, origin)


def _of_row(group: Group, row: Row) -> predictions.Network:
    """A row's network, with the first seed if there are several."""
    if not row.networks:
        return predictions.Network(group.entry, row.id, group.entry.folder / "fused.safetensors", row.accuracy or 0.0)
    measured = [network for network in row.networks if network.facts]
    first = min(measured, key=lambda network: network.settings.get(SEED, ""))
    return predictions.Network(first.entry, "fused", first.file, first.facts["accuracy"])


def _matrix(group: Group, row: Row, name: str, palette: Palette, origin: widgets.Several) -> None:
    try:
        network = _of_row(group, row)
        if not predictions.is_quick([network]) and not st.button("Run it on the images", key=f"ask-{name}"):
            return
        with st.spinner("Running the network…"):
            answers = predictions.ask(network)
    except ValueError as error:
        widgets.why(f"This network has no matrix: {error}")
        return
    counts = np.zeros((len(group.classes), len(group.classes)), dtype=int)
    np.add.at(counts, (answers.labels.astype(int), answers.named.astype(int)), 1)
    widgets.chart(
        f"mistakes-{name}",
        lambda colours: confusion_matrix(counts, group.classes, row.name, colours),
        palette,
        origin,
        heading=f"**{escaped(row.name)}**",
    )
