"""Follow one example, a test image or a drawn digit, through all networks of a run and level by level."""

from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.address.readers import number
from retrofit_app.address.rule import Parameter
from retrofit_app.address.session import Scope
from retrofit_app.figures import Palette, claimed, listing
from retrofit_app.figures.followed import answers, called, followed_words, steps
from retrofit_app.models import following, sources
from retrofit_app.runs import methods

from . import readings
from .charts import why
from .pad import pad

EXAMPLE = Scope("example")
DRAWN = "drawn"
BOX, PAD, MOVED, OPENED = "example-box", "example-pad", "example-moved", "example-opened"


def follow(entry: runs.Entry, palette: Palette, level: str = "") -> None:
    """Draw a box that stays closed until somebody opens it or the address names an example.

    Args:
        level: the level to highlight; "" for none.
    """
    if not following.is_possible(entry):
        return
    example = EXAMPLE.one(_parameter(entry))
    st.session_state[BOX] = bool(example) or st.session_state.pop(OPENED, False)
    box = st.expander("Follow one example", icon=":material/route:", key=BOX, on_change=_turned)
    if not box.open:
        return
    with box, st.spinner("Running all networks…", show_time=True):
        try:
            if not example:
                EXAMPLE.change(example=_first(entry))
                st.rerun()
            _followed(entry, palette, example, level)
        except (OSError, ValueError, KeyError) as error:
            text = runs.without_folders(error, sources.located(sources.source_of(entry).data), entry.base)
            why(f"The image cannot be followed: {text}")


def relink() -> None:
    """Rerun the page if another example was chosen, because the sidebar's links carry it; call it at the start of a
    fragment."""
    if st.session_state.pop(MOVED, None):
        st.rerun()


def _turned() -> None:
    """The box's callback: what it opens with is found where the user sees that it takes time."""
    if st.session_state.get(BOX):
        st.session_state[OPENED] = True
    else:
        _show("")


def _show(example: str) -> None:
    st.session_state[MOVED] = True
    EXAMPLE.change(example=example)


def _parameter(entry: runs.Entry) -> Parameter:
    """The image: its number in the test split, DRAWN, or "" for none."""
    count = entry.metrics["networks"]["fused"]["samples"]

    def read(text: str) -> str:
        return text if text in ("", DRAWN) else str(number(0, count - 1, digits=0)(text))

    return Parameter("example", "", read, of_run=True)


def _first(entry: runs.Entry) -> str:
    """The example the box opens with: one that just one parent and the fused network get right, but not the average."""
    try:
        right = following.right(entry)
    except (OSError, ValueError, KeyError):  # the box says why
        return "0"
    parents = [known for name, known in right.items() if name.startswith("parent ")]
    if not parents or "average" not in right:
        return "0"
    telling = (
        (sum(known.astype(int) for known in parents) == 1) & ~right["average"] & right.get("fused", right["ensemble"])
    )
    return str(int(telling.argmax()))


def _followed(entry: runs.Entry, palette: Palette, example: str, level: str) -> None:
    images, right = sources.test_images(entry), following.right(entry)
    shown = st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="example")
    with shown:
        _choose(entry, images, right, example)
        if example == DRAWN:
            strokes = pad(PAD, "Draw a digit here with the mouse, a pen or a finger.", lambda: None)
            if not strokes:
                st.caption("Draw a digit in the black square.")
                return
            pixels, truth = following.pixels_of_strokes(strokes, images.shape[1]), None
        else:
            pixels, truth = following.pixels_of(entry, int(example)), int(images.labels[int(example)])
        st.html(f"<img class='retrofit-example' src='{following.picture(entry, pixels)}' alt='What the networks see'>")
    said = following.answers(entry, pixels)
    has_levels = methods.goes_level_by_level(entry)
    course = following.steps(entry, pixels, readings.record(entry).levels) if has_levels else []
    what = "Your drawing" if example == DRAWN else f"Test image {example}"
    st.markdown(claimed(followed_words(what, said, course, images.classes, truth)))
    st.html(answers(said, images.classes, truth, palette))
    st.caption(
        "Columns: the chance that each network gives to each class"
        + ("." if truth is None else "; bold: the right one.")
    )
    if course:
        st.markdown("**Level by level: the answer if the fusion stops there**")
        st.html(steps(course, images.classes, truth, level, palette))
        st.caption("After the level, each network continues from the fused neurons with its own remaining levels.")


def _choose(entry: runs.Entry, images: Any, right: dict[str, Any], example: str) -> None:
    """Draw the choice of the image."""
    numbers = [str(row) for row in following.choices(entry)]
    numbers += [] if example in (*numbers, DRAWN) else [example]

    def words(number: str) -> str:
        if number == DRAWN:
            return "a digit drawn by hand"
        who = [called(name).removeprefix("the ") for name, known in right.items() if known[int(number)]]
        knows = f" · right: {listing(who) or 'none'}" if right else ""
        return f"{number} · shows {images.classes[int(images.labels[int(number)])]}{knows}"

    st.selectbox(
        "Image",
        [*([DRAWN] if following.are_digits(entry) else []), *numbers],
        **EXAMPLE.control("example", change=_show),
        width=360,
        format_func=words,
        help="Type to search: a number, a class (shows 3), or who is right (right: B).",
    )
