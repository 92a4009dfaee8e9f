"""The form of the next fine-tuning, its and the shown fine-tuning's parameters in the address, its images, and Start."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.address.rule import amount
from retrofit_app.address.session import Scope
from retrofit_app.figures import escaped
from retrofit_app.models.keep import keep
from retrofit_app.widgets import controls, works
from retrofit_app.widgets.works import Shelf
from retrofit_core.runs.store import FINETUNING, Work

MOST_EPOCHS, MOST_SEED, LEAST_RATE = 1000, 9999, 1e-6
#: Help texts of the form's fields.
HELP = {
    "tune_epochs": "Passes over the training images. The learning rate falls to nearly 0 by epoch 10, 30, 70 and 150 and then "
    "restarts, so these are good numbers of epochs. The paper takes 200.",
    "tune_rate": "The highest learning rate, after each restart. The paper's is 0.0003 (0.00001 for Tiny-ImageNet).",
    "tune_seed": "Decides which images are held out, their order and their augmentation. Same seed, same network.",
}


@dataclass(frozen=True)
class TuningForm:
    """What the form asks."""

    tune_epochs: int = amount(30, 1, MOST_EPOCHS, "Epochs")
    tune_rate: float = amount(3e-4, LEAST_RATE, 1.0, "Learning rate", digits=7, step=1e-4, format="%.6f")
    tune_seed: int = amount(0, 0, MOST_SEED, "Seed")


def _config(settings: Mapping[str, Any]) -> Any:
    from retrofit_core.runs.finetunings import FinetuneConfig

    return FinetuneConfig.from_json(settings)


TUNING = Scope("tuning")
TUNINGS = Shelf(FINETUNING, "fine-tuning", TUNING, "tuned", _config, until_run=True)


def shown_tuning(entry: runs.Entry) -> Work | None:
    """A run's shown fine-tuning; None if there is none."""
    every = TUNINGS.of(entry)
    return TUNINGS.work_of(entry, every, TUNING.one(TUNINGS.parameter_of(entry, every)))


def form(entry: runs.Entry, *, busy: bool) -> None:
    """Draw the controls of the next fine-tuning; read network and images only if the box is open."""
    box = st.expander(
        "Fine-tune this network", icon=":material/tune:", key=f"tuning of {entry.name}", on_change="rerun"
    )
    if not box.open:
        return
    with box:
        asked = TUNING.read(TuningForm)
        ask(entry)
        start_row(entry, config_of(asked), busy)


def ask(entry: runs.Entry) -> None:
    """Draw epochs, seed and rate."""
    with st.container(key="fuse-grid-tuning"):  # see style.css
        controls.ask(TUNING, HELP, "tune_epochs", "tune_seed", "tune_rate")


def config_of(asked: TuningForm) -> Any:
    """The form's `FinetuneConfig`."""
    from retrofit_core.runs.finetunings import FinetuneConfig

    return FinetuneConfig(
        epochs=asked.tune_epochs,
        learning_rate=asked.tune_rate,
        seed=asked.tune_seed,
    )


def start_row(entry: runs.Entry, config: Any, busy: bool) -> None:
    """Draw which images it takes, or why it is impossible; and Start."""
    try:
        words = training_words(entry, config)
    except ValueError as error:
        st.warning(
            f"This network cannot be fine-tuned: {escaped(runs.without_folders(error))}", icon=":material/block:"
        )
        return
    st.markdown(words)
    with st.container(horizontal=True, vertical_alignment="center"):
        works.start_or_show(TUNINGS, entry, config, busy, "This is already done.", "secondary")
        st.caption(f"Or on the command line, {runs.where(entry)}:")
    st.code(config.command(works.record_of(entry)), language="bash", wrap_lines=True)


def training_words(entry: runs.Entry, config: Any) -> str:
    """How many images train the network, and how many are held out.

    Raises:
        ValueError: as `plan_finetuning`.
    """
    from retrofit_core.runs.finetunings import plan_finetuning

    plan = plan_finetuning(config, *_material(entry))
    held_out = len(plan.held_out)
    return (
        f"On **all {len(plan.images):,} training images** of {escaped(plan.images.name)}, whichever network saw them: it trains "
        f"on {len(plan.images) - held_out:,}, and {held_out:,} held-out images decide which epoch is kept."
    )


@keep(1, "Reading the network and its data…")
def _material(entry: runs.Entry) -> Any:
    """A finished run and its training images."""
    from retrofit_core.runs.finetunings import read_run_to_tune

    return read_run_to_tune(entry.folder, entry.base)
