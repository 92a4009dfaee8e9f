"""A level's neurons as a grouping joins them: the paper's cluster figure."""

import numpy as np

from .drawing import NOTHING, Trace, line, mark, scatter
from .neurons import Neurons
from .palette import GLYPHS, SHAPES, Palette
from .picture import Picture
from .plane import FEW, OTHER, Marks, cluster_words, fills, mark_size, marks, square
from .words import network

EDGE = 1.6  # px, the outline of a mark, in the colour of its network

#: The stroke of a neuron outside the frame, in halves of the frame.
OUT = 0.09


def clusters(
    grouped: Neurons,
    palette: Palette,
    *,
    height: int = 430,
    reference: Neurons | None = None,
) -> Picture:
    """A level's neurons in the plane of their first two principal components, as grouped (the paper's cluster figure).

    Ink: the densest cluster (most members; on a tie the lowest mean distance to its centroid), with spokes to its
    importance-weighted centroid; five hues: the next largest. Grey: other clusters; hollow: single neurons. If neurons are
    few, lines join every cluster's. Shape: parent. Area: importance in multiples of the mean. Neurons outside the frame are
    on its border, with a stroke outwards.

    Args:
        reference: the grouping whose clusters set the colours; by default this one.
    """
    look = marks(grouped, reference)
    traces: list[Trace] = []
    for cluster in look.joined:
        members = grouped.labels == cluster
        kind = int(look.kinds[members][0])
        colour = palette.muted if kind == OTHER else fills(palette)[kind]
        ends = look.points[members if len(grouped.labels) <= FEW else members & look.inside]
        traces.append(_spokes(ends, look.middles[cluster], colour, 1.2 if kind else 0.8))
    if not look.inside.all():
        traces.append(_outwards(look.points[~look.inside], look.centre, OUT * look.reach, palette.muted))
    traces.append(_marks(look, grouped, palette))
    return square(
        traces,
        grouped,
        look,
        palette,
        height,
        *cluster_words(grouped, int((~look.inside).sum())),
        key=cluster_key(len(grouped.widths), len(grouped.labels), palette),
    )


def _spokes(points: np.ndarray, middle: np.ndarray, colour: str, width: float) -> Trace:
    """Hairlines from points to a centroid, as one line with gaps."""
    x, y = (
        [end for point in points[:, axis].tolist() for end in (point, float(middle[axis]), None)] for axis in (0, 1)
    )
    return line(x, y, colour, width, connectgaps=False)


def _outwards(points: np.ndarray, centre: np.ndarray, reach: float, colour: str) -> Trace:
    """A stroke from each point away from the centre."""
    way = points - centre
    ends = points + reach * way / np.linalg.norm(way, axis=1, keepdims=True)
    pairs = np.stack([points, ends], axis=1).tolist()
    x, y = ([at for start, end in pairs for at in (start[axis], end[axis], None)] for axis in (0, 1))
    return line(x, y, colour, 2, connectgaps=False, cliponaxis=False)


def _marks(look: Marks, grouped: Neurons, palette: Palette) -> Trace:
    """All neurons in one trace: browsers draw it twice as fast as one trace per layer."""
    rows = look.order
    kinds, labels, inside = look.kinds[rows], grouped.labels[rows], look.inside[rows]
    shapes = [SHAPES[parent % len(SHAPES)] for parent in grouped.parents[rows]]
    colours = np.array(fills(palette), dtype=object)[kinds]
    edges = [palette.parent(parent) for parent in grouped.parents[rows]]
    marker = mark(
        shapes,
        (look.sizes[rows] * np.where(np.array(shapes) == "cross", 1.2, 1)).round(1).tolist(),
        colours.tolist(),
        edges,
        EDGE,
    )
    facts = zip(
        [grouped.names[row] for row in rows],
        inside,
        labels.tolist(),
        grouped.counts[labels].tolist(),
        grouped.weights[rows].tolist(),
        strict=True,
    )
    x, y = look.points[rows].T
    return scatter(
        x,
        y,
        "markers",
        # One text per mark: Plotly copies lists several times, and a template's lists of numbers are slower.
        [
            f"neuron {name}{'' if within else ', outside the frame'}<br>group {cluster}, {members} member"
            f"{'s' * (members > 1)}<br>importance {weight:.3g} × mean"
            for name, within, cluster, members, weight in facts
        ],
        # The mark carries the neuron's number: its place in the trace means nothing.
        customdata=[[row] for row in rows.tolist()],
        marker=marker,
    )


def cluster_key(parents: int, neurons: int, palette: Palette) -> str:
    """The legend as HTML below the figure, where it costs no width and prints."""
    shapes = " &nbsp; ".join(
        f"<b style='color:{palette.parent(index)}'>{GLYPHS[index % len(GLYPHS)]}</b>&nbsp;{network(index)}"
        for index in range(parents)
    )
    unit = mark_size(neurons)
    sizes = ((round(unit / 2), "¼×"), (round(unit), "1×"), (round(2 * unit), "4×"))
    areas = "".join(
        _dot(size / 16, NOTHING, palette.ink, "vertical-align:middle;margin:0 3px 0 8px") + label
        for size, label in sizes
    )
    items = [
        shapes,
        f"area: importance ÷ mean{areas}",
        f"{_dot(0.7, palette.ink, palette.ink)}largest group",
        f"{''.join(_dot(0.7, hue, palette.outline) for hue in palette.clusters)}next five, in the same colour in every picture",
        f"{_dot(0.7, palette.grey, palette.outline)}other groups",
        f"{_dot(0.7, palette.paper, palette.grey)}alone",
    ]
    words = "".join(f"<span style='margin-right:1rem;display:inline-block'>{item}</span>" for item in items)
    return f"<div style='font-size:.875rem;line-height:1.6;color:{palette.muted}'>{words}</div>"


def _dot(size: float, colour: str, outline: str, place: str = "vertical-align:-1px;margin-right:3px") -> str:
    """A circle; its size is in rem."""
    return (
        f"<span style='display:inline-block;width:{size}rem;height:{size}rem;border-radius:50%;{place};"
        f"background:{colour};border:1px solid {outline};box-sizing:border-box'></span>"
    )
