"""A landscape that is being measured: the picture as far as it is known, how far it is, and the way to stop it."""

from pathlib import Path

import streamlit as st

from retrofit_app import widgets
from retrofit_app.figures import DARK, LIGHT, Palette, escaped, landscape_plane
from retrofit_app.figures.landscape import KINDS
from retrofit_app.shell.errors import guarded
from retrofit_app.widgets.downloads import CAMERA
from retrofit_core.runs.store import LANDSCAPE, Work

from . import readings

POLL = 0.7  # seconds


@st.fragment(run_every=POLL)
@guarded
def watch(folder: str, dark: bool) -> None:
    """Poll until the worker has ended; only this part of the page is drawn again."""
    kept = Work(LANDSCAPE, Path(folder))
    if not kept.going:
        st.rerun()
    survey = readings.survey(kept) if kept.has_content else None
    progress(survey)
    widgets.stop(kept.folder, "cancel-landscape", "Stops after the current point. What is measured is kept and shown.")
    st.caption("You can reload or close this page: the work goes on, and this address finds it again.")
    if survey is not None and survey.markers:
        pictures(survey, DARK if dark else LIGHT)


def progress(survey: object) -> None:
    """The bar and its line."""
    if survey is None:
        st.progress(0.0, text="Reading the networks and images…")
        return
    done, total, seconds = survey.done, survey.total, survey.seconds  # type: ignore[attr-defined]
    left = seconds * (total - done) / max(done, 1)
    about = f" · about {max(1, round(left))} s left" if done > 3 and done < total else ""
    st.progress(done / max(total, 1), text=f"{done} of {total} points are measured · {seconds:.0f} s{about}")


def pictures(survey: object, palette: Palette) -> None:
    """Both planes: coarse first, cells that are not measured yet hatched crosswise."""
    columns = st.columns(2, gap="small")
    for column, kind in zip(columns, KINDS, strict=True):
        with column:
            picture = landscape_plane(survey, kind, palette)
            st.markdown(f"**{kind.capitalize()}** as far as it is measured")
            st.plotly_chart(
                picture.figure,
                key=f"growing-{kind}",
                theme=None,
                alt=picture.alt,
                config={**CAMERA, "displayModeBar": False},
                width="stretch",
            )
            st.caption(escaped(picture.caption))
