"""Pictures of a level's neurons, one per grouping, drawn in the browser (neurons.js): hovering, encircling and picking are
linked across them in the browser, and the server only gets the final picks."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from retrofit_app import figures, runs
from retrofit_app.address import session
from retrofit_app.figures import DARK, LIGHT, Palette
from retrofit_app.figures.palette import SHAPES, TEXT
from retrofit_app.figures.plane import FEW, axis_words
from retrofit_app.models.keep import keep

from .. import readings
from ..components import registered
from ..downloads import source

NAME = "retrofit-neurons"
#: What dragging does: encircle neurons, or nothing, so that a finger scrolls the page.
MODES = ("lasso", "box", "click")


@dataclass(frozen=True)
class Grouped:
    """One picture: the neurons as a score and a seed group them."""

    key: str
    """The name of its files"""
    score: str | None
    """None: as the run grouped them"""
    seed: int
    name: str
    """The start of its heading; "" for none"""
    note: str
    """The rest of the heading"""
    bold: bool
    """Whether tables follow this one"""
    selects: bool
    """Whether a click on its heading makes the tables follow it"""
    words: str
    """The text below the picture"""


@dataclass(frozen=True)
class Looks:
    """Which neurons stand out, as numbers among all of the level's neurons."""

    picked: Sequence[int] = ()
    """With thin rings; the others are dimmed"""
    marked: Sequence[int] = ()
    """With thick rings and names"""
    whole: bool = False
    """Whether the frame holds every neuron"""


def pictures(
    key: str,
    entry: runs.Entry,
    level: int,
    shown: Sequence[Grouped],
    looks: Looks,
    *,
    mode: str,
    height: int,
    scale: float,
    on_pick: Callable[[list[int]], None],
    on_score: Callable[[str], None],
) -> None:
    """Draw the pictures side by side, or one below the other if they do not fit.

    Args:
        mode: one of MODES.
        height: of a picture, in px.
        scale: how much larger text, marks and lines are than on a page.
        on_pick: gets the picked neurons.
        on_score: gets the score whose heading was clicked.
    """
    plane, turn = readings.grouping(entry, level), f"{key}-turn"

    def told() -> None:
        gesture = st.session_state[key]["gesture"]
        st.session_state[turn] = int(gesture["turn"])
        if gesture["level"] == level:
            on_pick([row for row in map(int, gesture["rows"]) if 0 <= row < len(plane.labels)])

    def titled() -> None:
        score = st.session_state[key]["score"]
        if any(each.selects and each.score == score for each in shown):
            on_score(score)

    parts = [
        _object(
            key=each.key, name=each.name, note=each.note, bold=each.bold, words=each.words,
            score=each.score if each.selects else "",
            marks=_marks(entry, level, each.score, each.seed, looks.whole),
        )
        for each in shown
    ]  # fmt: skip
    data = _object(
        key=key,
        level=level,
        turn=st.session_state.get(turn, 0),
        mode=mode,
        height=height,
        scale=scale,
        picked=list(looks.picked),
        marked=list(looks.marked),
        signature=[f"{source(entry)}.", runs.LICENCE],
        colours=_colours(),
        plane=_plane(entry, level, looks.whole),
        pictures=b"[" + b",".join(parts) + b"]",
    )
    # Not in a shadow tree, so that its elements are found like any other picture's.
    draw = registered(NAME, js=_file("js"), css=_file("css"), isolate_styles=False)
    draw(key=key, data=data, on_gesture_change=told, on_score_change=titled)


def prepare(entry: runs.Entry, level: int) -> None:
    """Compute the data of a level's pictures in advance."""
    analysis = readings.analysis(entry)
    _plane(entry, level, False)
    off_scale(entry, level, False)
    analysed = [] if analysis is None else analysis.levels
    for score in analysed[level].labels if level < len(analysed) else [None]:
        _marks(entry, level, score, 0, False)


@cache
def _file(ending: str) -> str:
    return Path(__file__).with_name(f"neurons.{ending}").read_text()


def _object(**parts: Any) -> bytes:
    """A JSON object of values and of bytes that are already JSON, which a level makes once."""
    return (
        b"{"
        + b",".join(
            json.dumps(name).encode() + b":" + (part if isinstance(part, bytes) else json.dumps(part).encode())
            for name, part in parts.items()
        )
        + b"}"
    )


@cache
def _colours() -> bytes:
    """Both themes' colours: the browser knows which is on."""
    return _object(light=_of(LIGHT), dark=_of(DARK))


def _of(palette: Palette) -> dict[str, Any]:
    names = ("paper", "ink", "muted", "accent", "line", "grey", "outline", "clusters", "networks")
    return {name: getattr(palette, name) for name in names}


@keep(300)
def _plane(entry: runs.Entry, level: int, whole: bool) -> bytes:
    """What all groupings of a level share: the neurons' places."""
    grouped = readings.grouping(entry, level)
    drawn = figures.marks(grouped, whole=whole)
    x, y = drawn.points.T.tolist()
    return _object(
        name=grouped.name,
        widths=grouped.widths,
        names=grouped.names,
        shapes=[SHAPES[parent % len(SHAPES)] for parent in range(len(grouped.widths))],
        x=x,
        y=y,
        off=np.flatnonzero(~drawn.inside).tolist(),
        centre=drawn.centre.tolist(),
        reach=drawn.reach,
        axes=[axis_words(number, grouped.explained[number - 1]) for number in (1, 2)],
        text=TEXT,
        few=FEW,
    )


@keep(1000)
def _marks(entry: runs.Entry, level: int, score: str | None, seed: int, whole: bool) -> bytes:
    """One grouping's data, with the numbers of tooltips in the usual three digits."""
    grouped = readings.grouping(entry, level, score, seed)
    drawn = figures.marks(grouped, readings.grouping(entry, level), whole)
    return _object(
        alt=figures.cluster_words(grouped, int((~drawn.inside).sum()))[0] + ".",
        labels=grouped.labels.tolist(),
        kinds=drawn.kinds.tolist(),
        sizes=drawn.sizes.round(1).tolist(),
        order=drawn.order.tolist(),
        middles=drawn.middles.tolist(),
        joined=drawn.joined,
        importance=_digits(grouped.weights),
        distances=_digits(grouped.distances),
    )


def _digits(values: np.ndarray) -> list[str]:
    return [f"{value:.3g}" for value in values.tolist()]


@keep(1000)
def off_scale(entry: runs.Entry, level: int, whole: bool) -> int:
    """The number of neurons on the border."""
    return int((~figures.marks(readings.grouping(entry, level), whole=whole).inside).sum())
