"""The neurons of a level as a grouping puts them together: the paper's cluster figure."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .drawing import Trace, edge, line, scatter
from .marks import ALONE, FEW, OTHER, Marks, cluster_words, digits, fills, marks
from .neurons import Neurons, centroid, neurons
from .palette import GLYPHS, SHAPES, Palette
from .picture import Picture, letter
from .plane import mark_size, square


def clusters(
    level: Any,
    palette: Palette,
    *,
    reference: Neurons | None = None,
    picked: Sequence[int] = (),
    marked: Sequence[int] = (),
    followed: Sequence[int] = (),
    whole: bool = False,
    height: int = 430,
) -> Picture:
    """A level's neurons in the plane of their first two principal components, as grouped (the paper's cluster figure).

    Ink: the reference's densest cluster (most members; on a tie the lowest mean distance to its centroid), with spokes to
    its importance-weighted centroid; five hues: its next largest. A cluster of another grouping has the colour of the one
    that it shares most members with. Grey: other clusters; hollow: neurons that are alone. Where there are few neurons,
    lines join those of each cluster. Shape: parent. Area: importance in multiples of the mean. Neurons outside the frame
    stand open on its border.

    Args:
        level: a `LevelReport`, or `Neurons`.
        reference: the grouping whose clusters have the colours; by default this one.
        picked: neurons with a thin ring, while the others are dimmed.
        marked: neurons with a thick ring and their name.
        followed: neurons with lines to their common centre: members of one cluster of this or another grouping.
        whole: whether the frame holds every neuron.
    """
    grouped = level if isinstance(level, Neurons) else neurons(level)
    sizes = np.clip(mark_size(len(grouped.labels)) * np.sqrt(grouped.weights), 4, 26)
    placed = marks(grouped, reference, whole)
    shown, (low, high) = placed.shown, (placed.centre - placed.reach, placed.centre + placed.reach)

    traces: list[Trace] = []
    for cluster in placed.joined:
        members = grouped.labels == cluster
        middle = np.clip(centroid(grouped.points, grouped.weights, members), low, high)
        kind = int(placed.kinds[members][0])
        colour = palette.muted if kind == OTHER else fills(palette)[kind]
        ends = shown[members] if len(grouped.labels) <= FEW else shown[members & placed.inside]
        traces.append(_spokes(ends, middle, colour, 1.2 if kind else 0.8))
    if len(followed):
        chosen = np.asarray(followed, dtype=int)
        traces.append(_spokes(shown[chosen], shown[chosen].mean(axis=0), palette.accent, 1.6))
    traces.append(_marks(placed, sizes, grouped, palette, picked))
    if len(picked):
        traces.append(_rings(np.asarray(picked, dtype=int), shown, sizes, grouped, palette, named=False))
    if len(marked):
        traces.append(_rings(np.asarray(marked, dtype=int), shown, sizes, grouped, palette))
    figure = square(traces, grouped, placed.centre, placed.reach, palette, height, clickmode="event+select")
    key = cluster_key(len(grouped.widths), len(grouped.labels), palette)
    return Picture(figure, *cluster_words(grouped, int((~placed.inside).sum())), key)


def _spokes(points: np.ndarray, middle: np.ndarray, colour: str, width: float = 0.8) -> Trace:
    """Hairlines from points to a centroid, as one line with gaps."""
    x, y = (
        [end for point in points[:, axis].tolist() for end in (point, float(middle[axis]), None)] for axis in (0, 1)
    )
    return line(x, y, colour, width, connectgaps=False)


def _rings(
    rows: np.ndarray, shown: np.ndarray, sizes: np.ndarray, grouped: Neurons, palette: Palette, named: bool = True
) -> Trace:
    """Around picked neurons thin ones; around marked ones thick ones, with the neurons' names where they are few."""
    names = [grouped.names[row] for row in rows]
    return scatter(
        shown[rows, 0].tolist(),
        shown[rows, 1].tolist(),
        "markers+text" if named and len(rows) <= 12 else "markers",
        hoverinfo="skip",
        cliponaxis=False,
        text=names if named else None,
        textposition="top center",
        textfont={"color": palette.accent},
        marker={
            "symbol": "circle-open",
            "size": (sizes[rows] + (9 if named else 5)).round(1).tolist(),
            "color": palette.accent,
            "line": edge(palette.accent, 3 if named else 1.5),
        },
    )


def _marks(placed: Marks, sizes: np.ndarray, grouped: Neurons, palette: Palette, picked: Sequence[int]) -> Trace:
    """All neurons in one trace: a browser draws it in half the time of one trace per layer."""
    order = np.argsort(-sizes, kind="stable")  # large marks below, small above
    # Alone, with others, with a colour; the densest cluster lies on top.
    layer = np.select([placed.kinds == 0, placed.kinds < OTHER, placed.kinds == OTHER], [3, 2, 1], 0)
    rows = order[np.argsort(layer[order], kind="stable")]
    kinds, labels, parents, within = (
        placed.kinds[rows],
        grouped.labels[rows],
        grouped.parents[rows],
        placed.inside[rows].tolist(),
    )
    shapes, colours = [SHAPES[parent % len(SHAPES)] for parent in parents], np.array(fills(palette), dtype=object)
    fill = colours[kinds].tolist()
    hues = np.where(kinds == ALONE, palette.grey, colours[kinds]).tolist()
    outlines = np.select([kinds == 0, kinds == ALONE], [palette.paper, palette.grey], palette.outline).tolist()
    bright = np.flatnonzero(np.isin(rows, np.asarray(picked, dtype=int))).tolist() if len(picked) else None
    x, y = placed.shown[rows].round(digits(float(np.ptp(placed.shown)))).T.tolist()
    return scatter(
        x,
        y,
        "markers",
        # The neuron's number travels with the mark: positions in a trace mean nothing.
        customdata=[[row] for row in rows.tolist()],
        marker={
            "opacity": 1,  # marks of different sizes would be pale
            "symbol": [
                shape if is_inside else f"{shape}-open" for shape, is_inside in zip(shapes, within, strict=True)
            ],
            "size": [
                round(size * (1.2 if shape == "cross" else 1), 1)
                for size, shape in zip(sizes[rows].tolist(), shapes, strict=True)
            ],
            "color": [own if is_inside else hue for own, hue, is_inside in zip(fill, hues, within, strict=True)],
            "line": {
                "color": [
                    outline if is_inside else hue
                    for outline, hue, is_inside in zip(outlines, hues, within, strict=True)
                ],
                "width": [
                    1.4 if is_inside and kind == ALONE else 1 if is_inside else 2
                    for is_inside, kind in zip(within, kinds, strict=True)
                ],
            },
        },
        # One text a mark: Plotly copies every list several times, and lists of numbers for a template take it longer.
        text=[
            f"neuron {name}{'' if is_inside else ', off-scale'}<br>cluster {cluster}, {members} members<br>"
            f"importance {weight:.3g} × mean<br>{distance:.3g} from its centroid"
            for name, is_inside, cluster, members, weight, distance in zip(
                [grouped.names[row] for row in rows],
                within,
                labels.tolist(),
                grouped.counts[labels].tolist(),
                grouped.weights[rows].tolist(),
                grouped.distances[rows].tolist(),
                strict=True,
            )
        ],
        hoverinfo="text",
        unselected={"marker": {"opacity": 0.25}},
        **({} if bright is None else {"selectedpoints": bright}),
    )


def cluster_key(parents: int, neurons: int, palette: Palette) -> str:
    """The legend as HTML below the figure, where it takes no width from it and prints."""
    shapes = " &nbsp; ".join(f"{GLYPHS[index % len(GLYPHS)]}&nbsp;network {letter(index)}" for index in range(parents))
    unit = mark_size(neurons)
    dots = "".join(
        f"<span style='display:inline-block;width:{size / 16}rem;height:{size / 16}rem;border-radius:50%;"
        f"border:1px solid {palette.ink};"
        f"margin:0 3px 0 8px;vertical-align:middle'></span>{label}"
        for size, label in ((round(unit / 2), "¼×"), (round(unit), "1×"), (round(2 * unit), "4×"))
    )

    def dot(colour: str, edge: str) -> str:
        return (
            f"<span style='display:inline-block;width:.7rem;height:.7rem;border-radius:50%;vertical-align:-1px;"
            f"margin-right:3px;background:{colour};border:1px solid {edge};box-sizing:border-box'></span>"
        )

    hues = "".join(dot(hue, palette.outline) for hue in palette.clusters)
    items = [
        shapes,
        f"area: importance ÷ mean{dots}",
        f"{dot(palette.ink, palette.ink)}largest cluster",
        f"{hues}next five, the same everywhere",
        f"{dot(palette.grey, palette.outline)}other clusters",
        f"{dot(palette.paper, palette.grey)}alone",
    ]
    words = "".join(
        f"<span style='white-space:normal;margin-right:1rem;display:inline-block'>{item}</span>" for item in items
    )
    return f"<div style='font-size:.875rem;line-height:1.6;color:{palette.muted}'>{words}</div>"
