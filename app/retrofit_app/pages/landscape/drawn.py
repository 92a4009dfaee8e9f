"""A measured landscape: both planes, one line between two networks, flatness and recipe; and its lecture."""

from typing import Any

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.address.rule import option
from retrofit_app.figures import Palette, claimed, escaped, headline, percent
from retrofit_app.figures.landscape import KINDS, average_words, caption, plane_words, rises_words, short
from retrofit_app.shell import navigation
from retrofit_app.shell.lectures import Slide
from retrofit_app.widgets import controls, pictures, readings
from retrofit_core.runs.store import Work

from .form import LANDSCAPE

BESIDE = (
    "The loss may be lower beside a network than at it: a network is sure of itself even on classes that it never saw, which "
    "costs loss, and a mixture is less sure."
)
#: Lines between each two of the three networks.
LINES = ("0", "1", "2")
#: px, the pictures' height on a lecture's page of 1280 x 720, which grows with the window.
HEIGHT = 572


def landscape(entry: runs.Entry, palette: Palette, work: Work) -> None:
    """Draw one landscape's pictures.

    Raises:
        ValueError: it is damaged.
    """
    survey = readings.survey(work)
    average, ends = average_words(survey), [(line.first, line.last) for line in survey.paths]
    line = int(LANDSCAPE.one(option("path", LINES, "0", "line between two networks")))
    first, last = path = ends[line]
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="landscape-finding"):
        st.markdown(claimed(average or headline(survey)), width="stretch")
        navigation.link(
            "learn", "What is this?", "The page Learn shows on small networks why averaging fails.", at="step=2"
        )
    st.markdown(escaped(f"{other_images(entry, survey)} {headline(survey) if average else ''}"))
    names = {index: " – ".join(map(short, pair)) for index, pair in zip(LINES, ends, strict=True)}
    help = "The straight line whose losses are drawn below."
    controls.switch(LANDSCAPE, "path", "Line between", names, help, seen=True)
    planes(entry, palette, work, path=path)
    st.caption(
        f"Every point is a network, too: a mixture of the three. {escaped(caption(survey))}",
        help="The number at a mark is the network's own loss or accuracy, with its own BatchNorm statistics. Between the points "
        "of the grid the picture is interpolated. Both axes count in distances between weights.",
    )
    left, right = st.columns(2, gap="large")
    with left:
        st.header(
            f"From {escaped(short(first))} to {escaped(short(last))} in a straight line", anchor=False, help=BESIDE
        )
        picture = pictures.picture(entry, "path", palette, work=work, line=line)
        widgets.chart("landscape-line", picture, entry, heading="")
    with right:
        flatness(survey)


def planes(entry: runs.Entry, palette: Palette, work: Work, ratio: float = 0.0, **look: Any) -> None:
    """Draw loss and accuracy side by side.

    Args:
        ratio: the scale of a lecture's page relative to 1280 x 720; 0 for none.
        look: options of `landscape_plane`.
    """
    look["large"] = (round(HEIGHT * ratio), ratio) if ratio else None
    with st.container(key="landscape" if ratio else "planes"):
        for column, kind in zip(st.columns(2, gap="small"), KINDS, strict=True):
            with column:
                widgets.chart(
                    f"landscape-{kind}",
                    pictures.picture(entry, kind, palette, work=work, **look),
                    entry,
                    heading=f"**{pictures.CHARTS[kind].question}**",
                    below="",
                    reading=escaped(plane_words(readings.survey(work), kind)),
                    bare=bool(ratio),
                    height="stretch",
                )


def slides(entry: runs.Entry, palette: Palette, work: Work) -> list[Slide]:
    """A lecture's slides: what is half way, and whether there is a barrier, both on the planes.

    Raises:
        ValueError: the landscape is damaged.
    """
    survey = readings.survey(work)
    told = {
        "half way": ("What is half way between the networks?", average_words(survey)),
        "barrier": ("Is there a barrier between the networks?", headline(survey)),
    }
    worst = max(survey.paths, key=lambda path: path.barrier)
    lines = {"half way": None, "barrier": (worst.first, worst.last)}
    return [
        Slide(
            name,
            question,
            escaped(finding),
            1,
            lambda shown, ratio, line=lines[name]: planes(entry, palette, work, ratio, hidden=not shown, path=line),
        )
        for name, (question, finding) in told.items()
        if finding
    ]


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


def flatness(survey: Any) -> None:
    """Say how much the loss rises around the networks."""
    from retrofit_core.inspection.landscape.survey import SCALING

    st.header("How flat are their surroundings?", anchor=False)
    st.markdown(escaped(rises_words(survey)))
    st.caption("Flat alone is not good: a network that knows nothing is the flattest of all.", help=SCALING)
