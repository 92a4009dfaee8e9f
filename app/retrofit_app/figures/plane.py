"""The plane of a level's neurons: its frame, its axes, the size of a mark, and the neurons before any grouping."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from .neurons import Neurons, neurons
from .palette import SHAPES, Palette
from .picture import Picture, layout, letter, number, percent, titled

QUANTILE, MARGIN = 0.94, 1.15  # the frame of a picture: a few outliers must not squeeze the rest


def activations(level: Any, palette: Palette, *, height: int = 430) -> Picture:
    """The same plane before any grouping: one hue and shape per parent."""
    grouped = level if isinstance(level, Neurons) else neurons(level)
    centre, reach = frame(grouped.points)
    shown = np.clip(grouped.points, centre - reach, centre + reach)
    figure = go.Figure()
    for parent in range(len(grouped.widths)):
        rows = np.flatnonzero(grouped.parents == parent)
        inside: np.ndarray = np.abs(grouped.points[rows] - centre).max(axis=1) <= reach
        shape, colour = SHAPES[parent % len(SHAPES)], palette.parent(parent)
        figure.add_scatter(
            x=shown[rows, 0].tolist(),
            y=shown[rows, 1].tolist(),
            mode="markers",
            name=f"network {letter(parent)}",
            customdata=grouped.numbers[rows].tolist(),
            hovertemplate="neuron %{customdata}<extra>%{fullData.name}</extra>",
            marker={
                "symbol": [shape if is_inside else f"{shape}-open" for is_inside in inside.tolist()],
                "size": mark_size(len(grouped.labels)) * 1.15,
                "color": colour,
                "line": {
                    "color": [palette.outline if is_inside else colour for is_inside in inside.tolist()],
                    "width": 1,
                },
            },
        )
    square(figure, grouped, centre, reach, palette, height)
    off = int((np.abs(grouped.points - centre) > reach).any(1).sum())
    legend = {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "bgcolor": "rgba(0,0,0,0)"}
    figure.update_layout(showlegend=True, legend=legend, margin={"t": 34})
    facts = f"{' + '.join(map(str, grouped.widths))} neurons" + (f" · {off} off-scale" if off else "")
    middles = [grouped.points[grouped.parents == parent].mean(0) for parent in range(len(grouped.widths))]
    apart = float(np.linalg.norm(middles[0] - middles[-1])) / max(float(grouped.points.std()), 1e-300)
    alt = (
        f"Scatter plot of the neurons of level {grouped.name} on two principal components, by network: {facts}. The first and "
        f"the last network's centres are {number(apart)} standard deviations apart."
    )
    return Picture(figure, alt, f"{facts} · PCA hides {percent(100 * grouped.hidden, 0)}")


def square(
    figure: go.Figure, grouped: Neurons, centre: np.ndarray, reach: float, palette: Palette, height: int
) -> None:
    figure.update_layout(**layout(palette, height=height))
    figure.update_layout(margin={"l": 28, "r": 8, "t": 8, "b": 28})
    frame = {
        "showgrid": False,
        "zeroline": False,
        "showticklabels": False,
        "fixedrange": True,
        "mirror": True,
        "showline": True,
        "linecolor": palette.line,
        "ticks": "",
        "constrain": "domain",
        "constraintoward": "center",
    }
    padding = reach * 1.06
    figure.update_xaxes(
        range=[centre[0] - padding, centre[0] + padding], **frame, title=titled(axis_words(1, grouped.explained[0]))
    )
    figure.update_yaxes(
        range=[centre[1] - padding, centre[1] + padding],
        scaleanchor="x",
        title=titled(axis_words(2, grouped.explained[1])),
        **{**frame, "constraintoward": "top"},
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
