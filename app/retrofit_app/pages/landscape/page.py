"""What is between a run's networks, and around them: loss and accuracy on a plane, on lines, on circles."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import Palette
from retrofit_app.figures.landscape import short
from retrofit_app.shell import lectures, picker
from retrofit_app.widgets import works
from retrofit_app.widgets.errors import guarded
from retrofit_core.runs.store import Work

from . import drawn, form, lecture, parameters, readings
from .parameters import LANDSCAPES, Drawing


def page() -> None:
    """Draw the shown landscape, or the one being measured, and the form of another."""
    entry, palette = picker.choice().entry, widgets.palette()
    with st.container(key="heading"):
        st.title("What is between the networks?", anchor=False)
    if entry.state != "done":
        widgets.why("This run is not finished, so it has no fused network yet. Choose another run on the left.")
        return
    if any(work.state == "done" for work in LANDSCAPES.of(entry)):
        lectures.way_in("both planes", "lines between the networks")
    body(entry, palette)


@st.fragment
@guarded
def body(entry: runs.Entry, palette: Palette) -> None:
    """Draw all but the sidebar: another line or scale reruns only this."""
    every = LANDSCAPES.of(entry)
    look = parameters.drawing(LANDSCAPES.parameter_of(entry, every))
    chosen = LANDSCAPES.work_of(entry, every, look.map)
    is_lecture = lectures.read().lecture
    if is_lecture and chosen is not None and chosen.state == "done":
        lecture.lecture(entry, palette, chosen, look)
        return
    if is_lecture:
        st.info("Lecture mode needs a measured landscape.", icon=":material/info:")
    if chosen is None:
        st.markdown(
            "Every point of the plane through three networks of one shape is a network, too: a mixture of the "
            "three. Loss and accuracy show whether there is a barrier between the networks, and where the fused "
            "network is relative to its parents. "
            "**This run has no landscape.**"
        )
    elif chosen.going:
        works.watch(lambda: chosen.going, lambda: growing(chosen))
    else:
        finished(entry, palette, chosen, every, look)
    st.divider()
    form.form(entry, is_open=chosen is None, busy=chosen is not None and chosen.going)


def finished(
    entry: runs.Entry,
    palette: Palette,
    chosen: Work,
    every: Sequence[Work],
    look: Drawing,
) -> None:
    """Draw a landscape that is not being measured: its pictures, or why there are none."""
    if chosen.state != "done":
        works.stopped(LANDSCAPES, entry, chosen, every, part="nothing of it is shown", label="Measure again")
        chooser(every)
        return
    drawn.landscape(entry, palette, chosen, look, lambda: chooser(every))
    works.delete(LANDSCAPES, entry, chosen, every)


def chooser(every: Sequence[Work]) -> None:
    """Draw the list of the run's landscapes if there are several."""
    works.chooser(LANDSCAPES, every, title, "All landscapes of this run, the newest first.")


def title(work: Work) -> str:
    """A landscape's title in the list."""
    settings = work.settings
    facts = settings["landscape"]
    spanning = ", ".join(short(name) for name in settings["through"])
    return f"{spanning} · {facts['resolution']}² points, {facts['images']} images, seed {facts['seed']}"


def growing(work: Work) -> None:
    """Draw the progress."""
    share, words = progress(readings.survey_of(work) if work.has_content else None)
    stops = "Stops after the current point."
    works.progress(work.folder, share, words, stops, "cancel-landscape")


def progress(survey: Any) -> tuple[float, str]:
    """The share done, and the line beside the bar."""
    if survey is None:
        return 0.0, "Reading the networks and images…"
    done, total, seconds = survey.done, survey.total, survey.seconds
    left = seconds * (total - done) / max(done, 1)
    about = f" · about {max(1, round(left))} s left" if done > 3 and done < total else ""
    return done / max(total, 1), f"{done} of {total} points are measured · {seconds:.0f} s{about}"
