"""A fine-tuning that goes on: how far it is, its curve as it grows, and the way to stop it."""

from pathlib import Path

import streamlit as st

from retrofit_app.figures import DARK, LIGHT
from retrofit_app.figures.tuning import tuning_curve
from retrofit_app.runs import followups
from retrofit_app.runs.words import duration
from retrofit_app.shell.errors import guarded
from retrofit_app.widgets import works
from retrofit_core.runs.store import FINETUNING, Work, notes_of


@st.fragment(run_every=works.POLL)
@guarded
def watch(folder: str, dark: bool) -> None:
    """Poll until the worker has ended; only this part of the page is drawn again."""
    work = Work(FINETUNING, Path(folder))
    if not work.going:
        st.rerun()
    share, words = progress(work)
    stops = "Stops after the current step. Finished epochs are kept; you can go on later."
    works.progress(work.folder, share, words, stops, "cancel-tuning")
    if work.has_content:
        curve = followups.curve(work)
        picture = tuning_curve(curve["history"], curve["networks"], curve["epochs"], DARK if dark else LIGHT)
        works.growing("tuning", picture, "**Accuracy after each epoch**, on held-out training images")


def progress(work: Work) -> tuple[float, str]:
    """The share that is done, and the line beside the bar."""
    notes = notes_of(work.folder)
    if not work.has_content:
        return 0.0, "Reading the network and its images…"
    curve = followups.curve(work)
    done = curve["history"][-1]["epoch"] if curve["history"] else 0
    if not done:
        return 0.0, f"{str(notes.get('name', 'starting')).capitalize()}…"
    share = min((notes.get("index") or 0) / (notes.get("total") or 1), 1.0)
    left = curve["seconds"] * (curve["epochs"] - done) / done
    about = f" · about {duration(left)} left" if done < curve["epochs"] else ""
    loss = curve["history"][-1]["loss"]
    said = f", loss {loss:.3g}" if loss is not None else ""
    return share, f"Epoch {done} of {curve['epochs']} is done{said} · {duration(curve['seconds'])}{about}"
