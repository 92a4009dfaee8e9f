"""Fine-tunings of a finished run: finished ones, the running one, and the form for the next."""

from collections.abc import Sequence

import streamlit as st

from retrofit_app import runs
from retrofit_app.figures import difference, interval, percent
from retrofit_app.figures.words import first_up, lettered
from retrofit_app.runs import followups, methods
from retrofit_app.runs.words import duration
from retrofit_app.widgets import works
from retrofit_app.widgets.errors import guarded
from retrofit_core.runs.store import Work, notes_of

from . import tuning_form
from .tuning_form import TUNINGS

#: The session's key for the fine-tuning that has a tile above.
TILE = "tuned-tile"


@st.fragment
@guarded
def tuning(entry: runs.Entry) -> None:
    """Draw the fused network's fine-tunings; nothing for methods that keep all networks."""
    if methods.keeps_parents(entry):
        return
    every, chosen = TUNINGS.of(entry), tuning_form.shown_tuning(entry)
    if tile_of(chosen) != st.session_state.get(TILE):
        st.rerun()  # the tile above shows another fine-tuning
    if chosen is not None:
        st.header("What does fine-tuning add?", anchor=False)
        one(entry, chosen, every)
    tuning_form.form(entry, busy=chosen is not None and chosen.going)


def one(entry: runs.Entry, chosen: Work, every: Sequence[Work]) -> None:
    """Draw a finished, running or stopped fine-tuning."""
    works.chooser(TUNINGS, every, title, "All fine-tunings of this run, the newest first.")
    if chosen.going:
        works.watch(lambda: chosen.going, lambda: growing(chosen))
        return
    if followups.has_network(chosen):
        st.markdown(finding(entry, chosen))
    if chosen.state != "done":
        works.stopped(TUNINGS, entry, chosen, every, part="the finished epochs are kept", label="Continue")
    if followups.has_network(chosen):
        with st.container(horizontal=True):
            st.download_button(
                "Fine-tuned network",
                (chosen.folder / followups.TUNED).read_bytes,
                f"{entry.name}-{chosen.name}-tuned.safetensors",
                key="get-tuned",
                on_click="ignore",
                icon=":material/download:",
                help="The checkpoint with its configuration, classes and normalisation, as `retrofit evaluate` takes it.",
            )
            if chosen.state == "done":
                works.delete(TUNINGS, entry, chosen, every)


def title(work: Work) -> str:
    """A fine-tuning's title in the list."""
    facts = work.settings
    precision = "" if facts["precision"] == "auto" else f", {facts['precision']}"
    return f"{facts['epochs']} epochs, rate {facts['learning_rate']:g}{precision}, seed {facts['seed']}"


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


def growing(work: Work) -> None:
    """Draw the progress."""
    share, words = progress(work)
    stops = "Stops after the current step. Finished epochs are kept, and you can continue later."
    works.progress(work.folder, share, words, stops, "cancel-tuning")


def progress(work: Work) -> tuple[float, str]:
    """The share done, and the line beside the bar."""
    notes = notes_of(work.folder)
    if not work.has_content:
        return 0.0, "Reading the network and its images…"
    curve = followups.curve(work)
    seconds, stage = curve["seconds"], str(notes.get("name", "starting"))
    done = curve["history"][-1]["epoch"] if curve["history"] else 0
    share = min((notes.get("index") or 0) / (notes.get("total") or 1), 1.0)
    if not done:
        return share, f"{first_up(lettered(stage))}…"
    about = f" · about {duration(seconds * (1 - share) / share)} left" if 0 < share < 1 else ""
    loss = curve["history"][-1]["loss"]
    said = f", loss {loss:.3g}" if loss is not None else ""
    return share, f"Epoch {done} of {curve['epochs']} is done{said} · {duration(seconds)}{about}"
