"""The plane of a level's neurons: frame, axes, size of marks, and the neurons before any grouping."""

from typing import Any

import numpy as np

from .drawing import BARE, Trace, axis, drawn, mark, scatter
from .neurons import Neurons, neurons
from .palette import SHAPES, Palette
from .picture import Picture
from .words import network, number, percent

#: Shares of half the frame: the size of a spot, and the distance between neurons drawn at one spot.
SPOT, BESIDE = 0.004, 0.08
QUANTILE, MARGIN = 0.94, 1.15  # the frame: a few outliers must not squeeze the rest


def activations(level: Any, palette: Palette, *, height: int = 430) -> Picture:
    """The plane before any grouping: one hue and shape per parent."""
    grouped = level if isinstance(level, Neurons) else neurons(level)
    centre, reach = frame(grouped.points)
    points = side_by_side(np.clip(grouped.points, centre - reach, centre + reach), reach)
    inside = np.abs(grouped.points - centre).max(axis=1) <= reach
    traces = []
    for parent in range(len(grouped.widths)):
        rows = grouped.parents == parent
        shape, colour = SHAPES[parent % len(SHAPES)], palette.parent(parent)
        marker = mark(
            [shape if is_inside else f"{shape}-open" for is_inside in inside[rows]],
            mark_size(len(grouped.labels)) * 1.15,
            colour,
            [palette.outline if is_inside else colour for is_inside in inside[rows]],
        )
        tip = "neuron %{customdata}<extra>%{fullData.name}</extra>"
        numbers = grouped.numbers[rows].tolist()
        x, y = points[rows].T
        traces.append(scatter(x, y, "markers", tip, name=network(parent), customdata=numbers, marker=marker))
    off = int((~inside).sum())
    facts = f"{' + '.join(map(str, grouped.widths))} neurons" + (f" · {off} outside the frame" if off else "")
    middles = [grouped.points[grouped.parents == parent].mean(0) for parent in range(len(grouped.widths))]
    apart = float(np.linalg.norm(middles[0] - middles[-1])) / max(float(grouped.points.std()), 1e-300)
    alt = (
        f"Scatter plot of the neurons of level {grouped.name} on two principal components, by network: {facts}. The first and "
        f"the last network's centres are {number(apart)} standard deviations apart"
    )
    caption = f"{facts} · PCA hides {percent(100 * grouped.hidden, 0)}"
    legend = {"showlegend": True, "legend": {"y": 1.0}}
    return square(traces, grouped, (centre, reach), palette, height, alt, caption, top=34, **legend)


def square(
    traces: list[Trace],
    grouped: Neurons,
    square: tuple[np.ndarray, float],
    palette: Palette,
    height: int,
    alt: str,
    caption: str,
    *,
    top: int = 8,
    **layout: Any,
) -> Picture:
    """Neurons in a square; the axis titles give the shares of the variance.

    Args:
        square: its centre (2,) and half its width; a little room is added around.
        top: px above it.
        layout: as for `drawn`.
    """
    bare = {**BARE, "showticklabels": False, "mirror": True, "showline": True, "constrain": "domain"}
    centre, reach = square
    (left, low), (right, high) = centre - reach * 1.06, centre + reach * 1.06
    x, y = (axis_words(side, share) for side, share in enumerate(grouped.explained[:2], 1))
    return drawn(
        palette,
        traces,
        height,
        alt,
        caption=caption,
        margin=(28, 8, top, 28),
        xaxis=axis(x, range=[left, right], constraintoward="center", **bare),
        yaxis=axis(y, range=[low, high], scaleanchor="x", constraintoward="top", **bare),
        **layout,
    )


def mark_size(neurons: int) -> float:
    """Diameter in px of a neuron of mean importance: 7 from 256 neurons on, more for fewer."""
    return 7 * float(np.clip((256 / max(neurons, 1)) ** 0.25, 1, 1.7))


def frame(points: np.ndarray, whole: bool = False) -> tuple[np.ndarray, float]:
    """Centre (2,) and half-width of a square frame that outliers cannot stretch, unless `whole`."""
    centre = np.median(points, axis=0)
    away = np.abs(points - centre).max(1)
    return centre, float(max(away.max() * 1.02 if whole else np.quantile(away, QUANTILE) * MARGIN, 1e-9))


def side_by_side(points: np.ndarray, reach: float) -> np.ndarray:
    """Points (m, 2), with the few that share a spot moved apart, so that each is visible.

    Many neurons at one spot, such as dead ones, stay in place.
    """
    spots, index, counts = np.unique(np.round(points / (SPOT * reach)), axis=0, return_inverse=True, return_counts=True)
    apart, index = points.copy(), index.reshape(-1)
    for spot in np.flatnonzero((counts > 1) & (counts <= len(SHAPES))).tolist():
        rows = np.flatnonzero(index == spot)
        apart[rows, 0] += BESIDE * reach * (np.arange(len(rows)) - (len(rows) - 1) / 2)
    return apart


def axis_words(number: int, share: float) -> str:
    """An axis title with its share of the variance."""
    return f"component {number} ({percent(100 * share, 0)})"
