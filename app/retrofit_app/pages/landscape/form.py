"""The form of the next landscape: plane, resolution, images; its evaluations, and Start."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.address.rule import Control
from retrofit_app.figures import escaped, lettered
from retrofit_app.runs import followups
from retrofit_app.widgets import controls, works
from retrofit_core.runs.store import FINETUNING, Work

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
        tunings = {work.name: work for work in followups.works_of(entry, FINETUNING) if followups.has_network(work)}
        try:
            align, tuned = parameters.among(list(tunings))
            names = readings.names(entry, align, tuned)
        except ValueError as error:
            st.info(f"There is no landscape of this run: {escaped(lettered(str(error)))}", icon=":material/info:")
            return
        if len(names) < 3 and not align:
            st.info(f"A plane needs three networks, and this run has {len(names)}.", icon=":material/info:")
            return
        asked = parameters.form_values(names)
        ask(names, tunings)
        start_row(entry, config_of(asked, align, tuned), busy)


def ask(names: list[str], tunings: Mapping[str, Work]) -> None:
    """Draw the choice of three networks, then of the measurement.

    Args:
        tunings: key -> the run's finished fine-tuning.
    """
    labels = {"first": "From", "second": "to", "third": "and through"}
    asked = {name: Control(label, options=names, words=lettered) for name, label in labels.items()}
    asked["align"] = Control("Aligned parents by", options=parameters.ALIGNMENTS)
    if tunings:
        words = {key: tuning_words(work) for key, work in tunings.items()}
        options = {parameters.NONE: parameters.NONE, **words}
        asked["tuned"] = Control("Fine-tuned network", options=options, words=options.__getitem__)
    for column, (name, control) in zip(st.columns(len(asked)), asked.items(), strict=True):
        with column:
            controls.draw(LANDSCAPE, name, control, HELP[name])
    for column, name in zip(st.columns(4), ("resolution", "images", "norms", "seed"), strict=True):
        with column:
            controls.ask(LANDSCAPE, HELP, name)


def tuning_words(work: Work) -> str:
    """A fine-tuning's label in the list."""
    return f"{work.settings['epochs']} epochs, seed {work.settings['seed']}, rate {work.settings['learning_rate']:g}"


def config_of(asked: LandscapeForm, align: str | None, tuned: str | None) -> Any:
    """The form's `LandscapeConfig`."""
    from retrofit_core.inspection.landscape import Landscape
    from retrofit_core.runs.landscapes import LandscapeConfig

    measured = Landscape(
        resolution=int(asked.resolution),
        images=int(asked.images),
        seed=asked.seed,
        norms=asked.norms,  # type: ignore[arg-type]
    )
    return LandscapeConfig((asked.first, asked.second, asked.third), align, measured, tuned)


def start_row(entry: runs.Entry, config: Any, busy: bool) -> None:
    """Draw what it evaluates, or why it is impossible; and Start."""
    try:
        if len(set(config.through)) < 3:
            raise ValueError("a plane needs three different networks. Choose another one.")
        counts = readings.evaluations(entry, config)
    except ValueError as error:
        st.warning(f"This cannot be measured: {escaped(lettered(str(error)))}", icon=":material/block:")
        return
    parts = ", ".join(f"{count} for {what}" for what, count in counts.items())
    st.markdown(f"**{sum(counts.values())} evaluations** of {config.landscape.images} images each ({parts}).")
    with st.container(horizontal=True, vertical_alignment="center"):
        works.start_or_show(LANDSCAPES, entry, config, busy, "This landscape is already measured.", "primary")
        st.caption(f"Or on the command line, {runs.where(entry)}.{taking.where(entry)}")
    st.code(taking.command_of(entry, config.to_json()), language="bash", wrap_lines=True)
