"""The landscape on a projector: both planes as large as fits, the run's name, and the finding in a sentence."""

import streamlit as st

from retrofit_app import figures, runs, widgets
from retrofit_app.figures import Palette, Picture, claimed, escaped, headline, landscape_plane
from retrofit_app.figures.landscape import KINDS, average_words, paths_of
from retrofit_app.shell import lectures
from retrofit_core.runs.store import Work

from . import parameters, readings
from .drawn import line_between
from .parameters import LANDSCAPE, Drawing

#: px, the pictures' height on a page of 1280 x 720, which grows with the window.
HEIGHT = 572
HALF_WAY, BARRIER = "What is half way between the networks?", "Is there a barrier between the networks?"


def lecture(entry: runs.Entry, palette: Palette, work: Work, look: Drawing) -> None:
    """Draw the planes under their subject and finding.

    Raises:
        ValueError: the landscape is damaged.
    """
    survey = readings.survey_of(work)
    paths = paths_of(survey)
    average = average_words(survey)
    answers = [*filter(None, [average]), headline(survey)]
    shown = min(lectures.LECTURE.current("shown"), len(answers))
    with st.container(gap="xsmall", key="landscape"):
        if not (ratio := lectures.begin()):
            return
        bar(entry, paths, len(answers))
        with st.container(key="facts"):
            question = HALF_WAY if average else BARRIER
            st.markdown(claimed(answers[shown - 1] if shown else question))
        for column, kind in zip(st.columns(2, gap="small"), KINDS, strict=True):
            with column:

                def draw(colours: Palette, kind: str = kind) -> Picture:
                    picture = landscape_plane(survey, kind, colours, path=paths[int(look.path)], hidden=not shown)
                    return figures.enlarged(picture, round(HEIGHT * ratio), ratio)

                widgets.chart(
                    f"lecture-{kind}",
                    draw,
                    palette,
                    entry,
                    heading=f"**{kind.capitalize()}** · dark is {'low' if kind == 'loss' else 'high'}",
                    below="",
                    bare=True,
                )


def bar(entry: runs.Entry, paths: list[tuple[str, str]], answers: int) -> None:
    """Draw the run, the choice of the line, the number of hidden answers, and Leave."""

    def turn(by: int) -> None:
        index = int(LANDSCAPE.current("path")) + by
        if 0 <= index < len(parameters.PATHS):
            LANDSCAPE.change(path=parameters.PATHS[index])

    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", key="stepper"):
        st.markdown(f"**{escaped(runs.label(entry))}**", width="stretch")
        line_between(paths, "The line on both planes.", label_visibility="collapsed")
        lectures.ends(turn, answers)
