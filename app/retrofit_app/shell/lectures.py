"""Lecture mode, the same on every page that has it: a page for projectors without controls, with hidden answers to
reveal.

The address holds its state. A page made of slides passes them to `show`; a page with its own steps draws itself and calls
`begin` and `ends`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

from retrofit_app import widgets
from retrofit_app.address.readers import number, one_of
from retrofit_app.address.rule import declared
from retrofit_app.address.session import Scope
from retrofit_app.figures import escaped
from retrofit_app.figures.words import first_up
from retrofit_app.widgets.errors import guarded

from .mark import dress

LECTURE = Scope("lecture")
#: In a lecture these reveal the next answer or turn the page, forwards and back. Presentation remotes send the first two.
PAGES = {"PageDown": 1, "PageUp": -1, "Right": 1, "Left": -1}
HIDDEN = "?"
MOST = 99


@dataclass(frozen=True)
class Lecture:
    """A lecture's state in the address."""

    lecture: str = declared("", one_of(("", "1"), "lecture mode (1)"))
    """ "1" while it is on"""
    slide: int = declared(1, number(1, MOST, 0))
    """Counted from 1, on pages made of slides"""
    shown: int = declared(0, number(0, MOST, 0))
    """Revealed answers"""


@dataclass(frozen=True)
class Slide:
    """A page of a lecture."""

    name: str
    question: str
    """For the audience, in Markdown; the heading until all answers are revealed"""
    finding: str
    """The heading after that"""
    answers: int
    """How many can be revealed, one by one"""
    draw: Callable[[int, float], None]
    """Draws it with so many answers, scaled relative to a page of 1280 x 720"""


def read() -> Lecture:
    """The lecture's state; call it on every page that has a lecture, shown or not."""
    return LECTURE.read(Lecture)


def way_in(shows: str, turns: str, keys: str = "") -> None:
    """Draw the button to enter and leave, and the switch for keys; not in a fragment, which cannot write to the sidebar.

    Args:
        shows: what a lecture shows.
        turns: what PAGES turn.
        keys: further keys.
    """
    are_on = st.session_state.get("shortcuts", True)
    with st.sidebar:
        st.button(
            "Lecture mode",
            key="go-lecture",
            icon=":material/present_to_all:",
            width="stretch",
            on_click=toggle,
            shortcut="L" if are_on else None,
            help=f"For a projector: {shows}, as large as the window. Page down and page up (or the arrows) reveal answers and go "
            f"through the {turns}. L starts it, L or Esc ends it, H hides or reveals all answers. "
            "The address remembers it, so a link opens the same view.",
        )
        st.toggle(
            "Keyboard shortcuts",
            value=True,  # not set in the state before, which another page would show as off
            key="shortcuts",
            persist_state="session",
            help=f"{keys} Switch them off if they get in your way.".strip(),
        )


def toggle() -> None:
    """Enter or leave lecture mode; for callbacks."""
    LECTURE.change(lecture="" if LECTURE.current("lecture") else "1", slide=1, shown=0)


def begin() -> float:
    """Style the page for a projector; return its scale relative to 1280 x 720, or 0 until known: then draw nothing."""
    dress("lecture")
    return widgets.enlarged()


def ends(turn: Callable[[int], None], answers: int = 0) -> None:
    """Draw the end of a lecture's bar: reveal and leave, with their keys.

    Args:
        turn: a callback that turns so many pages.
        answers: how many the page has. Keys turn the page once all are revealed.
    """
    keys, shown = st.session_state.get("shortcuts", True), min(LECTURE.current("shown"), answers)

    def go(by: int) -> None:
        now = min(LECTURE.current("shown"), answers)
        if 0 <= now + by <= answers and answers:
            LECTURE.change(shown=now + by)
        else:
            turn(by)

    def reveal_all() -> None:
        LECTURE.change(shown=0 if min(LECTURE.current("shown"), answers) == answers else answers)

    def named(words: str, key: str) -> str:
        return f"{words} · {key}" if keys else words

    if answers:
        left = answers - shown
        st.button(
            named(f"Reveal ({left} left)", "→") if left else named("Hide", "H"),
            key="go-reveal",
            icon=":material/visibility:" if left else ":material/visibility_off:",
            on_click=go if left else reveal_all,
            args=(1,) if left else (),
            help="Shows the next answer. H shows or hides all of them.",
        )
    st.button(
        named("Leave", "L"), key="go-page", icon=":material/close:", on_click=toggle, help="Back to the whole page."
    )
    if keys:
        with st.container(key="lecture-keys"):  # invisible buttons for keys
            for key, by in PAGES.items():
                st.button(f"Turn, {key}", key=f"go-{key}", on_click=go, args=(by,), shortcut=key, help="Another page.")
            st.button("All answers", key="go-all", on_click=reveal_all, shortcut="H", help="Shows or hides them.")
            st.button("Leave, Esc", key="go-out", on_click=toggle, shortcut="Esc", help="Back to the whole page.")


@st.fragment
@guarded
def show(title: str, slides: Sequence[Slide]) -> None:
    """Show a lecture made of slides.

    Args:
        title: what it is about, such as the run.
    """
    look = read()
    if not look.lecture:
        st.rerun()  # the lecture was just left
    index = min(look.slide, len(slides)) - 1
    slide = slides[index]

    def turn(by: int) -> None:
        if 0 <= index + by < len(slides):  # going back, keep all answers revealed
            LECTURE.change(slide=index + 1 + by, shown=slides[index + by].answers if by < 0 else 0)

    shown = min(look.shown, slide.answers)
    with st.container(gap="small", key="lecture"):
        if not (ratio := begin()):
            return
        with st.container(
            horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", gap="xsmall", key="stepper"
        ):
            st.markdown(f"**{escaped(title)}**", width="stretch")
            if len(slides) > 1:
                st.segmented_control(
                    "Slide",
                    list(range(1, len(slides) + 1)),
                    **LECTURE.control("slide", change=lambda number: LECTURE.change(slide=number, shown=0)),
                    required=True,
                    format_func=lambda number: f"{number}\\. {first_up(slides[number - 1].name)}",
                    label_visibility="collapsed",
                    help="The pages of the lecture.",
                )
            ends(turn, slide.answers)
        with st.container(key="question"):
            st.markdown(f"**{slide.finding if shown == slide.answers else slide.question}**")
        slide.draw(shown, ratio)
