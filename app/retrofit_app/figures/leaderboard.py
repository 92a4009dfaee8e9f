"""Accuracy against seconds: each method's result and its cost."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .drawing import across_paper, axis, drawn, edge, log_ticks, mark, padded, scatter
from .palette import Palette
from .picture import Picture
from .placing import RADIUS, number_positions
from .words import number, percent

HEIGHT, NARROW = 380, 290  # px: the axes, and their width on a phone
LEAST = 0.001  # seconds: the table's last digit; shorter times are drawn here


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


def accuracy_against_seconds(points: Sequence[Point], best_parent: float, palette: Palette) -> Picture:
    """A mark for each method, with its rank in the table if there is room.

    Args:
        best_parent: accuracy of the best parent, drawn as a line.
    """
    times = [max(point.seconds, LEAST) for point in points]
    accuracies = [point.accuracy for point in points]
    low, high = padded(np.log10(times), 0.08, least=2.0)
    bottom, top = padded([*accuracies, best_parent], 0.12, least=2.0)
    shares = (np.log10(times) - low) / (high - low), (np.array(accuracies) - bottom) / (top - bottom)
    positions = number_positions(*shares, [point.rank for point in points], (NARROW, HEIGHT))
    marks = scatter(
        times,
        accuracies,
        "markers+text",
        [f"{each.rank}. {each.name}<br>{percent(each.accuracy)} in {seconds_words(each.seconds)} s" for each in points],
        marker=mark(
            ["circle" if point.ours else "square" for point in points],
            2 * RADIUS,
            [palette.accent if point.ours else palette.paper for point in points],
            [palette.accent if point.ours else palette.muted for point in points],
            1.5,
        ),
        text=[str(point.rank) if place else "" for point, place in zip(points, positions, strict=True)],
        textposition=[place or "top center" for place in positions],
        cliponaxis=False,
    )
    words = ", ".join(f"{point.name} {number(point.accuracy)} in {seconds_words(point.seconds)} s" for point in points)
    return drawn(
        palette,
        [marks],
        HEIGHT + 54,
        f"Accuracy in per cent against seconds. {words}",
        margin=(44, 10, 8, 46),
        shapes=[across_paper(best_parent, edge(palette.muted, 1, "dot"))],
        xaxis=axis("seconds of the fusion", type="log", range=[low, high], **log_ticks(low, high)),
        yaxis=axis("accuracy, %", range=[bottom, top], nticks=6),
    )


def seconds_words(seconds: float) -> str:
    """Seconds with one decimal, or three below a tenth."""
    return number(seconds, 1 if seconds >= 0.1 else 3)
