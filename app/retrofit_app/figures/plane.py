"""The plane of a level's neurons: their places, sizes and kinds, in a Plotly figure or in the page's own pictures; the neurons
before any grouping."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .drawing import BARE, Trace, axis, mark, picture_of, scatter
from .neurons import NAMED, Neurons, counterparts
from .palette import SHAPES, Palette
from .picture import Picture
from .words import network, percent

#: Shares of half the frame: the size of a spot, and the distance between neurons drawn at one spot.
SPOT, BESIDE = 0.004, 0.08
QUANTILE, MARGIN = 0.94, 1.15  # the frame: a few outliers must not squeeze the rest

#: Kinds of neurons by their cluster: 0 is the densest, 1 to 5 have a hue, then these two.
OTHER, ALONE = NAMED, NAMED + 1
FEW = 80  # most neurons for which lines join every cluster


@dataclass(frozen=True, eq=False)
class Marks:
    """A grouping's m neurons as drawn."""

    kinds: np.ndarray
    """(m,) densest cluster, hue, other or alone"""
    centre: np.ndarray
    """(2,) the frame's centre"""
    reach: float
    """Half of the frame's width"""
    points: np.ndarray
    """(m, 2) x and y, rounded: on the border for neurons outside the frame, side by side for a few at one spot"""
    inside: np.ndarray
    """(m,) whether a neuron is inside the frame"""
    sizes: np.ndarray
    """(m,) diameters in px: areas are as importance"""
    order: np.ndarray
    """(m,) neurons from the bottom: alone, other clusters, coloured ones, the densest; small ones on top of large ones"""
    middles: np.ndarray
    """(width, 2) the clusters' centroids, kept inside the frame"""
    joined: list[int]
    """Clusters whose members lines join: the densest or, if neurons are few, every one with several"""


def marks(grouped: Neurons, reference: Neurons | None = None) -> Marks:
    """How a grouping is drawn.

    Args:
        reference: the grouping whose clusters set the colours; by default this one.
    """
    colours, several = counterparts(reference or grouped, grouped)[grouped.labels], grouped.counts[grouped.labels] > 1
    kinds = np.where(colours >= 0, colours, np.where(several, OTHER, ALONE))
    centre, reach = frame(grouped.points)
    inside: np.ndarray = np.abs(grouped.points - centre).max(axis=1) <= reach * (1 + 1e-9)
    few = len(grouped.labels) <= FEW
    joined = np.flatnonzero(grouped.counts > 1) if few else np.unique(grouped.labels[colours == 0])
    points, middles = (
        np.clip(places, centre - reach, centre + reach) for places in (grouped.points, grouped.centroids)
    )
    points = side_by_side(points, reach)
    sizes = np.clip(mark_size(len(grouped.labels)) * np.sqrt(grouped.weights), 4, 26)
    layer = np.select([kinds == 0, kinds < OTHER, kinds == OTHER], [3, 2, 1], 0)
    order = np.lexsort((-sizes, layer))
    digits = int(4 - np.floor(np.log10(max(np.ptp(points), 1e-9))))  # below a pixel of ten thousand
    return Marks(kinds, centre, reach, points.round(digits), inside, sizes, order, middles, joined.tolist())


def fills(palette: Palette) -> list[str]:
    """Each kind's colour; single neurons are hollow."""
    return [palette.ink, *palette.clusters, palette.grey, palette.paper]


def cluster_words(grouped: Neurons, off: int) -> tuple[str, str]:
    """Alternative text and caption.

    Args:
        off: neurons outside the frame.
    """
    facts = group_facts(grouped) + ([f"{off} outside the frame"] if off else [])
    alt = (
        f"Scatter plot of the neurons of level {grouped.name} on two principal components: {', '.join(facts)}. "
        f"The plane hides {percent(100 * grouped.hidden, 0)} of the variance"
    )
    return alt, f"{' · '.join(facts)} · PCA hides {percent(100 * grouped.hidden, 0)}"


def group_facts(grouped: Neurons) -> list[str]:
    """A grouping in numbers."""
    largest = int(grouped.counts.max())
    return [
        f"{' + '.join(map(str, grouped.widths))} neurons in {grouped.width} groups",
        *([f"{int(grouped.mixed.sum())} with members of several networks"] if len(grouped.widths) > 1 else []),
        f"largest {largest}" if largest > 1 else "no group has more than one member",
        f"{int((grouped.counts == 1).sum())} alone",
    ]


def activations(grouped: Neurons, palette: Palette, *, height: int) -> Picture:
    """The plane before any grouping: one hue and shape per parent."""
    look, traces = marks(grouped), []
    for parent in range(len(grouped.widths)):
        rows = grouped.parents == parent
        shape, colour = SHAPES[parent % len(SHAPES)], palette.parent(parent)
        marker = mark(
            [shape if is_inside else f"{shape}-open" for is_inside in look.inside[rows]],
            mark_size(len(grouped.labels)) * 1.15,
            colour,
            [palette.outline if is_inside else colour for is_inside in look.inside[rows]],
        )
        tip = "neuron %{customdata}<extra>%{fullData.name}</extra>"
        numbers = grouped.numbers[rows].tolist()
        x, y = look.points[rows].T
        traces.append(scatter(x, y, "markers", tip, name=network(parent), customdata=numbers, marker=marker))
    off = int((~look.inside).sum())
    facts = f"{' + '.join(map(str, grouped.widths))} neurons" + (f" · {off} outside the frame" if off else "")
    alt = f"Scatter plot of the neurons of level {grouped.name} on two principal components, by network: {facts}"
    caption = f"{facts} · PCA hides {percent(100 * grouped.hidden, 0)}"
    legend = {"showlegend": True, "legend": {"y": 1.0}}
    return square(traces, grouped, look, palette, height, alt, caption, top=34, **legend)


def square(
    traces: list[Trace],
    grouped: Neurons,
    look: Marks,
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
        look: the square's centre and half its width; a little room is added around.
        top: px above it.
        layout: as for `drawn`.
    """
    bare = {**BARE, "showticklabels": False, "mirror": True, "showline": True, "constrain": "domain"}
    (left, low), (right, high) = look.centre - look.reach * 1.06, look.centre + look.reach * 1.06
    x, y = (axis_words(side, share) for side, share in enumerate(grouped.explained[:2], 1))
    return picture_of(
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


def frame(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Centre (2,) and half-width of a square frame that outliers cannot stretch."""
    centre = np.median(points, axis=0)
    away = np.abs(points - centre).max(1)
    return centre, float(max(np.quantile(away, QUANTILE) * MARGIN, 1e-9))


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
