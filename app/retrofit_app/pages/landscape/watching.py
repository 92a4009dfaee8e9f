"""A landscape that is being measured: the picture as far as it is known, how far it is, and the way to stop it."""

from pathlib import Path
from typing import Any

import streamlit as st

from retrofit_app.figures import DARK, LIGHT, Palette, landscape_plane
from retrofit_app.figures.landscape import KINDS
from retrofit_app.shell.errors import guarded
from retrofit_app.widgets import works
from retrofit_core.runs.store import LANDSCAPE, Work

from . import readings


@st.fragment(run_every=works.POLL)
@guarded
def watch(folder: str, dark: bool) -> None:
    """Poll until the worker has ended; only this part of the page is drawn again."""
    work = Work(LANDSCAPE, Path(folder))
    if not work.going:
        st.rerun()
    survey = readings.survey(work) if work.has_content else None
    share, words = progress(survey)
    stops = "Stops after the current point. What is measured is kept and shown."
    works.progress(work.folder, share, words, stops, "cancel-landscape")
    if survey is not None and survey.markers:
        pictures(survey, DARK if dark else LIGHT)


def progress(survey: Any) -> tuple[float, str]:
    """The share that is done, and the line beside the bar."""
    if survey is None:
        return 0.0, "Reading the networks and images…"
    done, total, seconds = survey.done, survey.total, survey.seconds
    left = seconds * (total - done) / max(done, 1)
    about = f" · about {max(1, round(left))} s left" if done > 3 and done < total else ""
    return done / max(total, 1), f"{done} of {total} points are measured · {seconds:.0f} s{about}"


def pictures(survey: Any, palette: Palette) -> None:
    """Both planes: coarse first, cells that are not measured yet hatched crosswise."""
    for column, kind in zip(st.columns(2, gap="small"), KINDS, strict=True):
        with column:
            heading = f"**{kind.capitalize()}** as far as it is measured"
            works.growing(kind, landscape_plane(survey, kind, palette), heading)
