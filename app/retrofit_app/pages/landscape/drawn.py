"""A measured landscape: both planes, one line between two networks, flatness and recipe."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import Palette, claimed, escaped, headline, landscape_plane, loss_path, percent
from retrofit_app.figures.landscape import (
    KINDS,
    average_words,
    better_words,
    caption,
    paths_of,
    plane_words,
    rises_words,
    short,
)
from retrofit_app.shell import navigation
from retrofit_core.runs.store import Work

from . import parameters, readings, taking
from .parameters import LANDSCAPE, Drawing

BESIDE = (
    "The loss may be lower beside a network than at it: a network is sure of itself even on classes that it never saw, which "
    "costs loss, and a mixture is less sure."
)
HEADINGS = {"loss": "**Loss**: dark is low", "accuracy": "**Accuracy**: dark is high"}


def landscape(
    entry: runs.Entry,
    palette: Palette,
    work: Work,
    look: Drawing,
    chooser: Callable[[], None],
) -> None:
    """Draw one landscape's pictures.

    Raises:
        ValueError: it is damaged.
    """
    survey = readings.survey_of(work)
    paths = paths_of(survey)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="landscape-finding"):
        average = average_words(survey)
        st.markdown(claimed(average or headline(survey)), width="stretch")
        navigation.link(
            "learn", "What is this?", "The page Learn shows on small networks why averaging fails.", at="step=2"
        )
    said = [
        "Every point of the plane is a network, too: a mixture of the three.",
        better_words(survey),
        other_images(entry, survey),
        headline(survey) if average else "",
    ]
    st.markdown(escaped(" ".join(filter(None, said))))
    controls(paths, chooser)
    with st.container(key="planes"):
        for column, kind in zip(st.columns(2, gap="small"), KINDS, strict=True):
            with column:
                plane(entry, palette, survey, kind, look)
    st.caption(
        escaped(caption(survey)) + " Both axes count in distances between weights.",
        help="The number at a mark is the network's own loss or accuracy, with its own BatchNorm statistics. Between the points "
        "of the grid the picture is interpolated.",
    )
    left, right = st.columns(2, gap="large")
    with left:
        line(entry, palette, survey, int(look.path))
    with right:
        flatness(survey)
        taking.everything(entry, work)


def other_images(entry: runs.Entry, survey: Any) -> str:
    """The average's accuracy on Fuse, if the landscape was measured on other images."""
    known = entry.metrics.get("networks", {}).get("average")
    facts = survey.facts
    if known is None or (facts["split"] == "test" and facts["images"] >= known["samples"]):
        return ""
    return (
        f"All numbers here are measured on {facts['images']:,} images ({facts['split']}); on all {known['samples']:,} test "
        f"images, as on Fuse, the average has {percent(known['accuracy'])}."
    )


def controls(paths: list[tuple[str, str]], chooser: Callable[[], None]) -> None:
    """Draw the choice of landscape and line."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chooser()
        line_between(paths, "The straight line whose losses are drawn below.")


def line_between(paths: list[tuple[str, str]], help: str, **look: Any) -> None:
    """Draw the choice of the line between two networks."""
    st.segmented_control(
        "Line between",
        parameters.PATHS,
        **LANDSCAPE.control("path"),
        required=True,
        format_func=lambda index: " – ".join(map(short, paths[int(index)])),
        help=help,
        **look,
    )


def plane(entry: runs.Entry, palette: Palette, survey: Any, kind: str, look: Drawing) -> None:
    """Draw one of the two pictures."""
    path = paths_of(survey)[int(look.path)]
    widgets.chart(
        f"landscape-{kind}",
        lambda colours: landscape_plane(survey, kind, colours, path=path),
        palette,
        entry,
        heading=HEADINGS[kind],
        below="",
        reading=escaped(plane_words(survey, kind)),
        height="stretch",
    )


def line(entry: runs.Entry, palette: Palette, survey: Any, index: int) -> None:
    """Draw loss and accuracy along the chosen line."""
    first, last = paths_of(survey)[index]
    path = next(each for each in survey.paths if (each.first, each.last) == (first, last))
    st.header(f"From {escaped(short(first))} to {escaped(short(last))} in a straight line", anchor=False, help=BESIDE)
    widgets.chart("landscape-line", lambda colours: loss_path(path, colours), palette, entry, heading="")


def flatness(survey: Any) -> None:
    """Say how much the loss rises around the networks."""
    from retrofit_core.inspection.landscape.survey import SCALING

    st.header("How flat are their surroundings?", anchor=False)
    st.markdown(escaped(rises_words(survey)))
    st.caption("Flat alone is not good: a network that knows nothing is the flattest of all.", help=SCALING)
