"""The plane of a level's neurons: its frame, its axes, the size of a mark, and the neurons before any grouping."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from .drawing import ABOVE, BARE, NOTHING, Trace, axis, edge, plot, scatter
from .neurons import Neurons, neurons
from .palette import SHAPES, Palette
from .picture import Picture, letter, number, percent

QUANTILE, MARGIN = 0.94, 1.15  # the frame of a picture: a few outliers must not squeeze the rest


def activations(level: Any, palette: Palette, *, height: int = 430) -> Picture:
    """The same plane before any grouping: one hue and shape per parent."""
    grouped = level if isinstance(level, Neurons) else neurons(level)
    centre, reach = frame(grouped.points)
    shown = np.clip(grouped.points, centre - reach, centre + reach)
    traces = []
    for parent in range(len(grouped.widths)):
        rows = np.flatnonzero(grouped.parents == parent)
        inside: list[bool] = (np.abs(grouped.points[rows] - centre).max(axis=1) <= reach).tolist()
        shape, colour = SHAPES[parent % len(SHAPES)], palette.parent(parent)
        traces.append(
            scatter(
                shown[rows, 0].tolist(),
                shown[rows, 1].tolist(),
                "markers",
                name=f"network {letter(parent)}",
                customdata=grouped.numbers[rows].tolist(),
                hovertemplate="neuron %{customdata}<extra>%{fullData.name}</extra>",
                marker={
                    "symbol": [shape if is_inside else f"{shape}-open" for is_inside in inside],
                    "size": mark_size(len(grouped.labels)) * 1.15,
                    "color": colour,
                    "line": edge([palette.outline if is_inside else colour for is_inside in inside]),
                },
            )
        )
    off = int((np.abs(grouped.points - centre) > reach).any(1).sum())
    legend = {**ABOVE, "y": 1.0, "bgcolor": NOTHING}
    figure = square(traces, grouped, centre, reach, palette, height, top=34, showlegend=True, legend=legend)
    facts = f"{' + '.join(map(str, grouped.widths))} neurons" + (f" · {off} off-scale" if off else "")
    middles = [grouped.points[grouped.parents == parent].mean(0) for parent in range(len(grouped.widths))]
    apart = float(np.linalg.norm(middles[0] - middles[-1])) / max(float(grouped.points.std()), 1e-300)
    alt = (
        f"Scatter plot of the neurons of level {grouped.name} on two principal components, by network: {facts}. The first and "
        f"the last network's centres are {number(apart)} standard deviations apart."
    )
    return Picture(figure, alt, f"{facts} · PCA hides {percent(100 * grouped.hidden, 0)}")


def square(
    traces: list[Trace],
    grouped: Neurons,
    centre: np.ndarray,
    reach: float,
    palette: Palette,
    height: int,
    top: int = 8,
    **layout: Any,
) -> go.Figure:
    """Neurons in a square frame, titled with the shares of the variance that its sides show.

    Args:
        top: px above the frame.
    """
    bare = {**BARE, "showticklabels": False, "mirror": True, "showline": True, "constrain": "domain"}
    padding = reach * 1.06
    (left, low), (right, high) = centre - padding, centre + padding
    return plot(
        palette,
        traces,
        height,
        (28, 8, top, 28),
        xaxis=axis(axis_words(1, grouped.explained[0]), range=[left, right], constraintoward="center", **bare),
        yaxis=axis(
            axis_words(2, grouped.explained[1]), range=[low, high], scaleanchor="x", constraintoward="top", **bare
        ),
        **layout,
    )


def mark_size(neurons: int) -> float:
    """Diameter in pixels of a neuron of mean importance: 7 from 256 neurons on, more where there is room."""
    return 7 * float(np.clip((256 / max(neurons, 1)) ** 0.25, 1, 1.7))


def frame(points: np.ndarray, whole: bool = False) -> tuple[np.ndarray, float]:
    """Centre (2,) and half-width of a square frame that outliers cannot stretch, unless the whole is asked for."""
    centre = np.median(points, axis=0)
    away = np.abs(points - centre).max(1)
    return centre, float(max(away.max() * 1.02 if whole else np.quantile(away, QUANTILE) * MARGIN, 1e-9))


def axis_words(number: int, share: float) -> str:
    """The title of an axis, with the share of the variance that it shows."""
    return f"component {number} ({percent(100 * share, 0)})"
