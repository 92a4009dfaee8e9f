"""Lecture mode, the same on every page that has it: a projector's page without controls, answers that wait until they are
revealed, and the presenter's notes.

The address holds all of it. A page that is made of slides gives them to `show`; one with steps of its own draws itself, and
calls `begin` and `ends`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

from retrofit_app import widgets
from retrofit_app.address import session
from retrofit_app.address.readers import number
from retrofit_app.address.rule import declared, switch
from retrofit_app.address.session import Scope
from retrofit_app.figures import escaped
from retrofit_app.figures.words import first_up

from .errors import guarded
from .style import stylesheet

LECTURE = Scope("lecture")
#: In a lecture these reveal the next answer, then turn the page, and back. Presenters' remote controls send the first two.
PAGES = {"PageDown": 1, "PageUp": -1, "Right": 1, "Left": -1}
HIDDEN = "?"
MOST = 99


@dataclass(frozen=True)
class Lecture:
    """What the address says of a lecture."""

    lecture: bool = switch("lecture mode")
    slide: int = declared(1, number(1, MOST, 0))
    """Counted from 1, of pages that are made of slides"""
    shown: int = declared(0, number(0, MOST, 0))
    """Answers that are revealed"""
    notes: bool = switch("choice of presenter notes")


@dataclass(frozen=True)
class Slide:
    """A page of a lecture."""

    name: str
    question: str
    """For the audience, in Markdown; it stands above until all answers are revealed"""
    finding: str
    """What then stands in its place"""
    note: str
    """For the presenter"""
    answers: int
    """How many can be revealed, one after the other"""
    draw: Callable[[int, float], None]
    """Draws it with so many of them, so much larger than on a page of 1280 x 720"""


def read() -> Lecture:
    """Whether a lecture is shown, and how far it is; on every page that has one, whether it is shown or not."""
    return LECTURE.read(Lecture)


def way_in(shows: str, turns: str, keys: str = "") -> None:
    """Draw the button that leads in and out, and the switch for keys; not from a fragment, which cannot write into the sidebar.

    Args:
        shows: what a lecture shows, and
        turns: what PAGES go through.
        keys: which further keys there are.
    """
    are_on = session.first_time("shortcuts", True)
    with st.sidebar:
        st.button(
            "Lecture mode",
            key="go-lecture",
            icon=":material/present_to_all:",
            width="stretch",
            on_click=toggle,
            shortcut="L" if are_on else None,
            help=f"For a projector: {shows}, as large as the window. Page down and page up (or the arrows) reveal answers and go "
            f"through the {turns}. L starts and ends it, H hides or reveals all answers, N shows notes for the presenter. The "
            "address remembers it, so a link opens the same view.",
        )
        st.toggle(
            "Keyboard shortcuts",
            key="shortcuts",
            persist_state="session",
            help=f"{keys} Switch them off if they get in your way.".strip(),
        )


def toggle() -> None:
    """Into the lecture mode, or out of it; for callbacks."""
    LECTURE.change(lecture=not LECTURE.current("lecture"), slide=1, shown=0, notes=False)


def begin() -> float:
    """Make the page that of a projector; how much larger than 1280 x 720 it is, or 0 until that is known: draw nothing then."""
    st.html(stylesheet("lecture"))
    return widgets.enlarged()


def ends(turn: Callable[[int], None], note: str, answers: int = 0) -> None:
    """The end of a lecture's bar: reveal, notes, and the way out, with their keys; and the notes, where they are on.

    Args:
        turn: goes so many pages on; a callback.
        answers: how many the page has. Keys turn it once all are revealed.
    """
    keys, shown = session.first_time("shortcuts", True), min(LECTURE.current("shown"), answers)

    def go(by: int) -> None:
        now = min(LECTURE.current("shown"), answers)
        if 0 <= now + by <= answers and answers:
            LECTURE.change(shown=now + by)
        else:
            turn(by)

    def reveal_all() -> None:
        LECTURE.change(shown=0 if min(LECTURE.current("shown"), answers) == answers else answers)

    def turn_notes() -> None:
        LECTURE.change(notes=not LECTURE.current("notes"))

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
        named("Notes", "N"),
        key="go-notes",
        icon=":material/speaker_notes:",
        on_click=turn_notes,
        help="Notes for the presenter, at the foot of the page. To see them on your own screen alone, open this address in a "
        "second window.",
    )
    st.button(
        named("Leave", "L"), key="go-page", icon=":material/close:", on_click=toggle, help="Back to the whole page."
    )
    if keys:
        with st.container(key="lecture-keys"):  # not to be seen: what only keys do
            for key, by in PAGES.items():
                st.button(f"Turn, {key}", key=f"go-{key}", on_click=go, args=(by,), shortcut=key, help="Another page.")
            st.button("All answers", key="go-all", on_click=reveal_all, shortcut="H", help="Shows or hides them.")
            st.button("Turn notes", key="go-turn-notes", on_click=turn_notes, shortcut="N", help="Shows or hides them.")
    if LECTURE.current("notes"):
        with st.container(key="presenter-notes"):
            st.markdown(f":material/speaker_notes: {note}")


@st.fragment
@guarded
def show(title: str, slides: Sequence[Slide]) -> None:
    """A lecture that is made of slides.

    Args:
        title: of what is shown, such as the run.
    """
    look = read()
    if not look.lecture:
        st.rerun()  # it was left from here
    index = min(look.slide, len(slides)) - 1
    slide = slides[index]

    def turn(by: int) -> None:
        if 0 <= index + by < len(slides):  # back to a page as it was left
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
            ends(turn, slide.note, slide.answers)
        with st.container(key="question"):
            st.markdown(f"**{slide.finding if shown == slide.answers else slide.question}**")
        slide.draw(shown, ratio)
