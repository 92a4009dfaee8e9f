"""A measured landscape: both planes, one line between two networks and, folded, flatness and recipe."""

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
    loss_words,
    nearest_path,
    paths_of,
    place_words,
    plane_words,
    rises_words,
    short,
)
from retrofit_app.shell import navigation
from retrofit_core.runs.store import Work

from . import parameters, readings, taking
from .parameters import LANDSCAPE, Drawing

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
    point = point_of(survey, look.point)
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
                plane(entry, palette, survey, kind, look, point)
    if point is not None:
        clicked(survey, point)
    st.caption(
        escaped(caption(survey)) + " Both axes count in distances between weights.",
        help="Every point of the plane is a mixture of the three networks. The number at a mark is the network's own loss or "
        "accuracy, with its own BatchNorm statistics. Between the points of the grid the picture is interpolated. Click the "
        "plane to pick a point and the line next to it.",
    )
    left, right = st.columns(2, gap="large")
    with left:
        line(entry, palette, survey, int(look.path))
    with right:
        with st.expander("How flat are their surroundings?", icon=":material/landscape_2:"):
            flatness(entry, survey)
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


def point_of(survey: Any, text: str) -> tuple[int, int] | None:
    """Row and column of the clicked point; None if it is not on the grid or unmeasured."""
    if not text:
        return None
    row, column = map(int, text.split("-"))
    rows, columns = survey.finished.shape
    return (row, column) if row < rows and column < columns and bool(survey.finished[row, column]) else None


def controls(paths: list[tuple[str, str]], chooser: Callable[[], None]) -> None:
    """Draw the choice of landscape and line."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chooser()
        line_between(
            paths, "The straight line whose losses are drawn below. A click on the plane chooses the line next to it."
        )


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


def plane(
    entry: runs.Entry,
    palette: Palette,
    survey: Any,
    kind: str,
    look: Drawing,
    point: tuple[int, int] | None,
) -> None:
    """Draw one of the two pictures; a click picks a point and the nearest line."""
    path, key = paths_of(survey)[int(look.path)], f"landscape-{kind}"

    def pick() -> None:
        cells = [mark["customdata"] for mark in st.session_state[key]["selection"]["points"] if "customdata" in mark]
        if cells:
            row, column = int(cells[0][0]), int(cells[0][1])
            LANDSCAPE.change(point=f"{row}-{column}", path=str(nearest_path(survey, row, column)))

    widgets.chart(
        key,
        lambda colours: landscape_plane(survey, kind, colours, path=path, point=point),
        palette,
        entry,
        heading=HEADINGS[kind],
        below="" if bool(survey.finished.all()) else None,
        reading=escaped(plane_words(survey, kind)),
        height="stretch",
        on_select=pick,
        selection_mode="points",
    )


def clicked(survey: Any, point: tuple[int, int]) -> None:
    """Draw the clicked point in numbers."""
    row, column = point
    where = place_words(survey, survey.xs[column].item(), survey.ys[row].item())
    loss, accuracy = survey.loss[row, column].item(), survey.accuracy[row, column].item()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(
            f"The ringed point, {escaped(where)}: loss **{loss_words(loss)}**, accuracy **{percent(accuracy)}**.",
            width="content",
        )
        st.button(
            "Clear",
            key="go-clear-point",
            type="tertiary",
            on_click=LANDSCAPE.change,
            kwargs={"point": ""},
            help="Removes the ring from the pictures.",
        )


def line(entry: runs.Entry, palette: Palette, survey: Any, index: int) -> None:
    """Draw loss and accuracy along the chosen line."""
    first, last = paths_of(survey)[index]
    path = next((each for each in survey.paths if (each.first, each.last) == (first, last)), None)
    heading = f"**From {escaped(short(first))} to {escaped(short(last))} in a straight line**"
    if path is None:
        st.markdown(heading)
        widgets.why("This line is not measured yet. Lines come after the grid.")
        return
    widgets.chart(
        "landscape-line",
        lambda colours: loss_path(path, colours),
        palette,
        entry,
        heading=heading,
    )


def flatness(entry: runs.Entry, survey: Any) -> None:
    """Draw each network's own numbers, and how much the loss rises around it."""
    from retrofit_core.inspection.landscape.survey import SCALING

    table = readings.network_table(survey)
    number = st.column_config.NumberColumn
    on_plane = all(map(survey.is_on_plane, survey.markers))
    st.dataframe(
        table.drop(columns="off the plane") if on_plane else table,
        hide_index=True,
        key="flatness",
        alt="Loss, accuracy, distance off the plane and rise of the loss around each network.",
        column_config={
            "network": st.column_config.TextColumn("network", pinned=True, width=88),
            "loss": number("loss", format="%.3f", width=54, help="The network's own loss."),
            "accuracy %": number("accuracy %", format="%.1f", width=76),
            "off the plane": number(
                "off plane",
                format="%.2f",
                width=70,
                help="Distance between its weights and the plane; 0 if it is on the plane.",
            ),
            "mean rise": number(
                "mean rise", format="%.3f", width=72, help="Rise of the loss, over all directions that were tried."
            ),
            "largest rise": number("most", format="%.3f", width=56, help="The rise in the steepest direction."),
        },
    )
    if not survey.rises:
        st.caption("Flatness is measured last, and is not there yet.")
        return
    st.caption(
        f"{escaped(rises_words(survey))} Flat alone is not good: a network that knows nothing is the flattest of all. "
        f"{escaped(SCALING)}"
    )
