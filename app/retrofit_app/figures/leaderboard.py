"""Accuracy against seconds: each method's result and its cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .drawing import CELL, across_paper, axis, drawn, edge, mark, note, scatter
from .palette import Palette
from .picture import Picture
from .placing import Box, placed
from .words import number, percent

#: px: the room for marks on a wide page, a letter, a line.
WIDTH, HEIGHT, LETTER, LINE = 760, 380, 6.9, 17
MARK = 20  # px, the width of a mark
BETWEEN = 46  # px between two marks side by side: 20 on a phone, where the picture is 330 px wide
LEAST = 0.01  # seconds; shorter times are drawn here
#: Offsets of a name's nearer edge from its mark, px right and down, in order of preference; far ones get a
#: line.
BESIDE = ((15, 0), (-15, 0), (0, -20), (0, 20))
FAR = tuple(
    (across, down) for far in (34, 52, 74, 100) for down in (-far, far) for across in (0, 40, -40, 80, -80, 120, -120)
)


@dataclass(frozen=True)
class Point:
    """A method."""

    rank: int
    """Its rank in the table"""
    name: str
    seconds: float
    accuracy: float
    ours: bool
    """Whether it is one of the paper's"""
    single: bool = True
    """One network, rather than all side by side"""


def accuracy_against_seconds(points: Sequence[Point], best_parent: float, palette: Palette) -> Picture:
    """A mark for each method with its rank in the table, and its name if there is room.

    Args:
        best_parent: accuracy of the best parent, drawn as a line.
    """
    times = [max(point.seconds, LEAST) for point in points]
    low, high = math.log10(min(times)) - 0.25, math.log10(max(times)) + 0.25
    worst, best = min([best_parent, *(point.accuracy for point in points)]), max(point.accuracy for point in points)
    room = max(best - worst, 2.0)
    bottom, top = worst - 0.12 * room, best + 0.16 * room
    places = _spread(
        [
            ((math.log10(time) - low) / (high - low) * WIDTH, (top - point.accuracy) / (top - bottom) * HEIGHT)
            for time, point in zip(times, points, strict=True)
        ]
    )
    exponents = [low + across / WIDTH * (high - low) for across, _ in places]
    ours = [point.ours for point in points]
    marks = scatter(
        [10**exponent for exponent in exponents],
        [point.accuracy for point in points],
        "markers+text",
        [
            f"{point.rank}. {point.name}<br>{percent(point.accuracy)} in {seconds_words(point.seconds)} s"
            for point in points
        ],
        marker=mark(
            ["circle" if is_ours else "square" for is_ours in ours],
            MARK,
            [palette.accent if is_ours else palette.paper for is_ours in ours],
            [palette.accent if is_ours else palette.muted for is_ours in ours],
            1.5,
        ),
        text=[str(point.rank) for point in points],
        textfont={"size": CELL, "color": [palette.paper if is_ours else palette.ink for is_ours in ours]},
        cliponaxis=False,
    )
    words = ", ".join(f"{point.name} {number(point.accuracy)} in {seconds_words(point.seconds)} s" for point in points)
    return drawn(
        palette,
        [marks],
        HEIGHT + 54,
        f"Accuracy in per cent against seconds. {words}",
        _finding(points),
        margin=(44, 10, 8, 46),
        annotations=[
            note(point.name, exponent, point.accuracy, **_beside(offset, palette))
            for point, exponent, offset in zip(
                points, exponents, name_offsets(places, [point.name for point in points]), strict=True
            )
            if offset is not None
        ],
        shapes=[across_paper(best_parent, edge(palette.muted, 1, "dot"))],
        xaxis=axis("seconds of the fusion", type="log", range=[low, high], dtick=1, tickformat="~g"),
        yaxis=axis("accuracy, %", range=[bottom, top], nticks=6),
    )


def _finding(points: Sequence[Point]) -> str:
    singles = [point for point in points if point.single] or list(points)
    best = max(singles, key=lambda point: (point.accuracy, -point.seconds))
    quicker = [point for point in singles if point.accuracy >= best.accuracy - 1 and point.seconds < best.seconds]
    of = "" if len(singles) == len(points) else "Of the single networks, "
    words = f"{of}{best.name} is the most accurate, with {percent(best.accuracy)} in {seconds_words(best.seconds)} s"
    if not quicker:
        return f"{words}."
    quick = min(quicker, key=lambda point: point.seconds)
    return f"{words}; {quick.name} comes within a point of it in {seconds_words(quick.seconds)} s."


def seconds_words(seconds: float) -> str:
    """Seconds with one decimal, or three below a tenth."""
    return number(seconds, 1 if seconds >= 0.1 else 3)


def _beside(offset: tuple[int, int], palette: Palette) -> dict[str, Any]:
    """Settings of a name beside its mark, or farther away at the end of a line."""
    right, down = offset
    if offset in BESIDE:
        anchor = "left" if right > 0 else "right" if right < 0 else "center"
        return {"borderpad": 0, "xshift": right, "yshift": -down, "xanchor": anchor, "yanchor": "middle"}
    line = {"showarrow": True, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": palette.muted, "standoff": MARK / 2}
    return {"borderpad": 0, **line, "ax": right, "ay": down}


def _spread(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Set overlapping marks side by side, far enough apart for a phone."""
    apart: list[tuple[float, float]] = []
    for across, down in places:
        while close := [x for x, y in apart if abs(x - across) < MARK and abs(y - down) < MARK]:
            across = max(close) + BETWEEN
        apart.append((across, down))
    return apart


def name_offsets(places: Sequence[tuple[float, float]], names: Sequence[str]) -> list[tuple[int, int] | None]:
    """Each name's offset from its mark, so that no names or marks touch; None if there is no room."""
    half = MARK / 2 + 1
    marks = [(x - half, y - half, x + half, y + half) for x, y in places]
    choices = [
        {offset: box_of(x, y, name, offset) for offset in (*BESIDE, *FAR)}
        for (x, y), name in zip(places, names, strict=True)
    ]
    return placed(marks, choices, (0, 0, WIDTH, HEIGHT))


def box_of(x: float, y: float, name: str, offset: tuple[int, int]) -> Box:
    """Left, top, right and bottom of a name, px."""
    width, (right, down) = len(name) * LETTER, offset
    before = 0.5 if offset not in BESIDE or not right else 0 if right > 0 else 1  # the share left of the offset
    left = x + right - before * width
    return left, y + down - LINE / 2, left + width, y + down + LINE / 2
