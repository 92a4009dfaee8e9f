"""The form of the next landscape: plane, resolution, images; its evaluations, and Start."""

from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.address.rule import Control
from retrofit_app.figures import escaped, lettered
from retrofit_app.widgets import controls, works

from . import parameters, readings, taking
from .parameters import HELP, LANDSCAPE, LANDSCAPES, LandscapeForm


def form(entry: runs.Entry, *, is_open: bool, busy: bool) -> None:
    """Draw the controls of the next landscape; read networks only if the box is open."""
    box = st.expander(
        "Measure a landscape of this run" if is_open else "Measure another landscape of this run",
        expanded=is_open,
        icon=":material/grid_on:",
        key=f"form of {entry.name}" + (" open" if is_open else ""),
        on_change="rerun",
    )
    if not box.open:
        return
    with box:
        try:
            names = list(readings.material(entry).networks)
        except ValueError as error:
            st.info(f"There is no landscape of this run: {escaped(lettered(str(error)))}", icon=":material/info:")
            return
        if len(names) < 3:
            st.info(f"A plane needs three networks, and this run has {len(names)}.", icon=":material/info:")
            return
        asked = parameters.form_values(names)
        ask(names)
        start_row(entry, config_of(asked), busy)


def ask(names: list[str]) -> None:
    """Draw the choice of three networks, then of the measurement."""
    labels = {"first": "From", "second": "to", "third": "and through"}
    for column, (name, label) in zip(st.columns(3), labels.items(), strict=True):
        with column:
            controls.draw(LANDSCAPE, name, Control(label, options=names, words=lettered), HELP[name])
    for column, name in zip(st.columns(3), ("resolution", "images", "seed"), strict=True):
        with column:
            controls.ask(LANDSCAPE, HELP, name)


def config_of(asked: LandscapeForm) -> Any:
    """The form's `LandscapeConfig`."""
    from retrofit_core.inspection.landscape import Landscape
    from retrofit_core.runs.landscapes import LandscapeConfig

    measured = Landscape(resolution=int(asked.resolution), images=int(asked.images), seed=asked.seed)
    return LandscapeConfig((asked.first, asked.second, asked.third), landscape=measured)


def start_row(entry: runs.Entry, config: Any, busy: bool) -> None:
    """Draw what it evaluates, or why it is impossible; and Start."""
    try:
        count = readings.evaluations(entry, config.through, config.landscape)
    except ValueError as error:
        st.warning(f"This cannot be measured: {escaped(lettered(str(error)))}", icon=":material/block:")
        return
    st.markdown(f"**{count} evaluations** of {config.landscape.images} images each.")
    with st.container(horizontal=True, vertical_alignment="center"):
        works.start_or_show(LANDSCAPES, entry, config, busy, "This landscape is already measured.", "primary")
        st.caption(f"Or on the command line, {runs.where(entry)}.{taking.where(entry)}")
    st.code(taking.command_of(entry, config.to_json()), language="bash", wrap_lines=True)
