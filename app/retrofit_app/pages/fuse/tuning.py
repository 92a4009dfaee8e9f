"""Fine-tunings of a finished run: finished ones, the running one, and the form for the next."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.address.rule import amount
from retrofit_app.address.session import Scope
from retrofit_app.figures import difference, escaped, interval, percent
from retrofit_app.models.keep import keep
from retrofit_app.runs import followups, methods
from retrofit_app.widgets import controls, works
from retrofit_app.widgets.errors import guarded
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


def _title(work: Work) -> str:
    facts = work.settings
    return f"{facts['epochs']} epochs, rate {facts['learning_rate']:g}, seed {facts['seed']}"


TUNING = Scope("tuning")
TUNINGS = Shelf(
    FINETUNING, TUNING, "tuned", _config, _title, "the finished epochs are kept", "Continue", until_run=True
)
#: The session's key for the fine-tuning that has a tile above.
TILE = "tuned-tile"


@st.fragment
@guarded
def tuning(entry: runs.Entry) -> None:
    """Draw the fused network's fine-tunings; nothing for methods that keep all networks."""
    if methods.keeps_parents(entry):
        return
    every, chosen = TUNINGS.shown(entry)
    if tile_of(chosen) != st.session_state.get(TILE):
        st.rerun()  # the tile above shows another fine-tuning
    if chosen is not None:
        st.header("What does fine-tuning add?", anchor=False)
        works.piece(TUNINGS, entry, every, chosen, lambda: result(entry, chosen))
    busy = chosen is not None and chosen.going
    works.ask(TUNINGS, entry, "Fine-tune this network", lambda: asked(entry), busy=busy)


def result(entry: runs.Entry, work: Work) -> None:
    """Draw what a finished fine-tuning brought, and its network."""
    st.markdown(finding(entry, work))
    st.download_button(
        "Fine-tuned network",
        (work.folder / followups.TUNED).read_bytes,
        f"{entry.name}-{work.name}-tuned.safetensors",
        key="get-tuned",
        on_click="ignore",
        icon=":material/download:",
        help="The checkpoint with its configuration, classes and normalisation, as `retrofit evaluate` takes it.",
    )


def tile_of(work: Work | None) -> str:
    """The id of the fine-tuned network's tile; "" if there is none."""
    return work.name if work is not None and followups.has_network(work) else ""


def finding(entry: runs.Entry, work: Work) -> str:
    """A finished fine-tuning's result on the test images."""
    curve, metrics = followups.curve(work), followups.metrics(work)
    best, epochs = curve["history"][-1]["best"], work.settings["epochs"]
    if not best:
        is_perfect = curve["networks"]["fused"]["accuracy"] == 100
        return (
            f"**None of the {epochs} epochs was better than the start** on the held-out images, so the network stays as it was. "
            f"{'It already gets every one of these images right.' if is_perfect else 'A lower learning rate may help.'}"
        )
    trained = f"Fine-tuned for {epochs} epoch{'' if epochs == 1 else 's'}, keeping epoch {best}"
    if not metrics:
        return f"{trained}. There are no test images to measure it on."
    samples = metrics["samples"]
    words = f"{trained}: **{percent(metrics['accuracy'])}** {interval(metrics['accuracy'], samples)} of {samples:,} test images"
    networks = entry.metrics.get("networks", {})
    compared = [
        difference(metrics, networks[name]).than(what)
        for name, what in (("fused", "before"), ("ensemble", "the ensemble"))
        if name in networks and not (name == "ensemble" and len(entry.config["models"]) == 1)
    ]
    return f"{words}{', ' if compared else ''}{', '.join(compared)}."


def asked(entry: runs.Entry) -> tuple[Any, str]:
    """Draw epochs, seed and rate; return the `FinetuneConfig`, and which images it takes.

    Raises:
        ValueError: as `plan_finetuning`.
    """
    from retrofit_core.runs.finetunings import FinetuneConfig, plan_finetuning

    form = TUNING.read(TuningForm)
    with st.container(key="fuse-grid-tuning"):  # see style.css
        controls.ask(TUNING, HELP, "tune_epochs", "tune_seed", "tune_rate")
    config = FinetuneConfig(epochs=form.tune_epochs, learning_rate=form.tune_rate, seed=form.tune_seed)
    plan = plan_finetuning(config, *_material(entry))
    held_out = len(plan.held_out)
    return config, (
        f"On **all {len(plan.images):,} training images** of {escaped(plan.images.name)}, whichever network saw them: it trains "
        f"on {len(plan.images) - held_out:,}, and {held_out:,} held-out images decide which epoch is kept."
    )


@keep(1, "Reading the network and its data…")
def _material(entry: runs.Entry) -> Any:
    """A finished run and its training images."""
    from retrofit_core.runs.finetunings import read_run_to_tune

    return read_run_to_tune(entry.folder, entry.base)
