"""The landscape on a projector: both planes as large as the window, the run's name, and the finding in a sentence."""

from collections.abc import Mapping

import streamlit as st

from retrofit_app import figures, runs, widgets
from retrofit_app.address import session
from retrofit_app.figures import Palette, Picture, escaped, headline, landscape_plane
from retrofit_app.figures.landscape import KINDS, landscape_surface, paths_of, short
from retrofit_app.figures.picture import LECTURE
from retrofit_app.shell.style import stylesheet
from retrofit_app.widgets import lectures
from retrofit_core.runs.store import Work

from . import parameters, readings
from .parameters import LANDSCAPE, Drawing

#: px of the pictures on a page of 1280 x 720, which grows with the window.
HEIGHT = 572


def way_in() -> None:
    """The way into a lecture, in the sidebar."""
    lectures.way_in(toggle, "both planes", "lines between the networks")


def toggle() -> None:
    """Into the lecture mode, or out of it."""
    LANDSCAPE.change(lecture=not LANDSCAPE.current("lecture"))


def lecture(entry: runs.Entry, palette: Palette, work: Work, look: Drawing, likes: Mapping[str, Work]) -> None:
    """The planes, and above them what they are of and what they show.

    Raises:
        ValueError: the landscape is damaged.
    """
    st.html(stylesheet("lecture"))
    survey = readings.survey_of(work)
    scale, paths = readings.scale(survey, look.scale, likes), paths_of(survey)
    with st.container(gap="xsmall", key="landscape"):
        if not (ratio := widgets.enlarged()):
            return
        bar(entry, paths)
        with st.container(key="facts"):
            st.markdown(f"**{escaped(headline(survey))}**" if survey.paths else "This landscape is not complete.")
        for column, kind in zip(st.columns(2, gap="small"), KINDS, strict=True):
            with column:

                def draw(colours: Palette, kind: str = kind) -> Picture:
                    if look.relief and survey.finished.all():
                        picture = landscape_surface(
                            survey, kind, colours, scale, path=paths[int(look.path)], ratio=LECTURE * ratio
                        )
                    else:
                        picture = landscape_plane(survey, kind, colours, scale, path=paths[int(look.path)])
                    return figures.enlarged(picture, round(HEIGHT * ratio), ratio)

                widgets.chart(
                    f"lecture-{kind}",
                    draw,
                    palette,
                    lambda: readings.grid_table(survey),
                    entry,
                    heading=f"**{kind.capitalize()}** · dark is {'low' if kind == 'loss' else 'high'}",
                    below="",
                    bare=True,
                )


def bar(entry: runs.Entry, paths: list[tuple[str, str]]) -> None:
    """The run, the line that is drawn, and the way out."""
    keys = session.first_time("shortcuts", True)

    def turn(by: int) -> None:
        index = int(LANDSCAPE.current("path")) + by
        if 0 <= index < len(parameters.PATHS):
            LANDSCAPE.change(path=parameters.PATHS[index])

    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", key="stepper"):
        st.markdown(f"**{escaped(runs.label(entry))}**", width="stretch")
        st.segmented_control(
            "Line between",
            parameters.PATHS,
            **LANDSCAPE.control("path"),
            required=True,
            format_func=lambda index: " – ".join(map(short, paths[int(index)])),
            label_visibility="collapsed",
            help="The line on both planes.",
        )
        st.button(
            "Leave · L" if keys else "Leave",
            key="go-page",
            icon=":material/close:",
            on_click=toggle,
            help="Back to the whole page.",
        )
    with st.container(key="keys"):  # not to be seen: what only keys do
        for key, by in lectures.PAGES.items() if keys else ():
            st.button(f"Turn, {key}", key=f"go-{key}", on_click=turn, args=(by,), shortcut=key, help="Another line.")
