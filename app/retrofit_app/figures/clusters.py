"""The neurons of a level as a grouping puts them together: the paper's cluster figure."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .counterparts import counterparts
from .neurons import Neurons, centroid, neurons
from .palette import GLYPHS, SHAPES, TEXT, Palette
from .picture import Picture, letter, percent, unchecked
from .plane import frame, mark_size, square

FEW = 80  # neurons up to which lines join those of every cluster


def clusters(
    level: Any,
    palette: Palette,
    *,
    reference: Neurons | None = None,
    picked: Sequence[int] = (),
    marked: Sequence[int] = (),
    followed: Sequence[int] = (),
    whole: bool = False,
    drag: str | None = None,
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
        drag: "lasso" or "select", to pick neurons; None leaves a finger's drag to the page.
    """
    grouped = level if isinstance(level, Neurons) else neurons(level)
    place = counterparts(reference or grouped, grouped)[grouped.labels]
    sizes = np.clip(mark_size(len(grouped.labels)) * np.sqrt(grouped.weights), 4, 26)
    centre, reach = frame(grouped.points, whole)
    inside: np.ndarray = np.abs(grouped.points - centre).max(axis=1) <= reach * (1 + 1e-9)
    shown = np.clip(grouped.points, centre - reach, centre + reach)
    colours = np.array([palette.ink, *palette.clusters, palette.grey], dtype=object)[place]

    traces: list[dict[str, Any]] = []
    for cluster in _joined(grouped, place):
        members = grouped.labels == cluster
        middle = np.clip(centroid(grouped.points, grouped.weights, members), centre - reach, centre + reach)
        ink = bool(place[members][0] == 0)
        colour = colours[members][0] if place[members][0] >= 0 else palette.muted
        ends = shown[members] if len(grouped.labels) <= FEW else grouped.points[members & inside]
        traces.append(_spokes(ends, middle, colour, 0.8 if ink else 1.2))
    if len(followed):
        chosen = np.asarray(followed, dtype=int)
        traces.append(_spokes(shown[chosen], shown[chosen].mean(axis=0), palette.accent, 1.6))
    order = np.argsort(-sizes, kind="stable")  # large marks below, small above
    # Alone, with others, with a colour; the densest cluster lies on top.
    layer = np.select([place == 0, place > 0, grouped.counts[grouped.labels] > 1], [3, 2, 1], 0)
    rows = order[np.argsort(layer[order], kind="stable")]
    traces.append(_marks(rows, inside, shown, sizes, colours, layer, grouped, palette, picked))
    if len(picked):
        traces.append(_rings(np.asarray(picked, dtype=int), shown, sizes, grouped, palette, named=False))
    if len(marked):
        traces.append(_rings(np.asarray(marked, dtype=int), shown, sizes, grouped, palette))
    figure = unchecked(traces)
    square(figure, grouped, centre, reach, palette, height)
    figure.update_layout(dragmode=drag or False, clickmode="event" if drag else "event+select")
    key = cluster_key(len(grouped.widths), len(grouped.labels), palette)
    return Picture(figure, *_cluster_words(grouped, int((~inside).sum())), key)


def _joined(grouped: Neurons, place: np.ndarray) -> list[int]:
    """Clusters whose members are joined by lines: the one in ink, and of few neurons every cluster of several."""
    if len(grouped.labels) <= FEW:
        return np.flatnonzero(grouped.counts > 1).tolist()
    return np.unique(grouped.labels[place == 0]).tolist()


def _spokes(points: np.ndarray, middle: np.ndarray, colour: str, width: float = 0.8) -> dict[str, Any]:
    """Hairlines from points to a centroid, as one line with gaps."""
    x, y = (
        [end for point in points[:, axis].tolist() for end in (point, float(middle[axis]), None)] for axis in (0, 1)
    )
    return {
        "type": "scatter",
        "x": x,
        "y": y,
        "mode": "lines",
        "hoverinfo": "skip",
        "showlegend": False,
        "connectgaps": False,
        "line": {"color": colour, "width": width},
    }


def _rings(
    rows: np.ndarray, shown: np.ndarray, sizes: np.ndarray, grouped: Neurons, palette: Palette, named: bool = True
) -> dict[str, Any]:
    """Around picked neurons thin ones; around marked ones thick ones, with the neurons' names where they are few."""
    names = [grouped.names[row] for row in rows]
    return {
        "type": "scatter",
        "x": shown[rows, 0].tolist(),
        "y": shown[rows, 1].tolist(),
        "hoverinfo": "skip",
        "showlegend": False,
        "cliponaxis": False,
        "mode": "markers+text" if named and len(rows) <= 12 else "markers",
        "text": names if named else None,
        "textposition": "top center",
        "textfont": {"color": palette.accent, "size": TEXT},
        "marker": {
            "symbol": "circle-open",
            "size": (sizes[rows] + (9 if named else 5)).round(1).tolist(),
            "color": palette.accent,
            "line": {"color": palette.accent, "width": 3 if named else 1.5},
        },
    }


def _cluster_words(grouped: Neurons, off: int) -> tuple[str, str]:
    """Alternative text and caption."""
    counts, largest = grouped.counts, int(grouped.counts.max())
    mixed = int(grouped.mixed.sum())
    facts = [
        f"{' + '.join(map(str, grouped.widths))} neurons in {grouped.width} clusters",
        *([f"{mixed} with members of more than one network"] if len(grouped.widths) > 1 else []),
        f"densest {largest}" if largest > 1 else "no cluster has more than one member",
        f"{int((counts == 1).sum())} alone",
    ] + ([f"{off} off-scale"] if off else [])
    alt = (
        f"Scatter plot of the neurons of level {grouped.name} on two principal components: {', '.join(facts)}. "
        f"The plane hides {percent(100 * grouped.hidden, 0)} of the variance."
    )
    return alt, f"{' · '.join(facts)} · PCA hides {percent(100 * grouped.hidden, 0)}"


def _marks(
    rows: np.ndarray,
    inside: np.ndarray,
    shown: np.ndarray,
    sizes: np.ndarray,
    colours: np.ndarray,
    layer: np.ndarray,
    grouped: Neurons,
    palette: Palette,
    picked: Sequence[int],
) -> dict[str, Any]:
    """All neurons in one trace: a browser draws it in half the time of one trace per layer."""
    labels, parents, within = grouped.labels[rows], grouped.parents[rows], inside[rows].tolist()
    shapes, hues = [SHAPES[parent % len(SHAPES)] for parent in parents], colours[rows].tolist()
    outlines = np.select([layer[rows] == 3, layer[rows] == 0], [palette.paper, palette.grey], palette.outline).tolist()
    fills = np.where(layer[rows] == 0, palette.paper, colours[rows]).tolist()
    bright = np.flatnonzero(np.isin(rows, np.asarray(picked, dtype=int))).tolist() if len(picked) else None
    x, y = shown[rows].round(_digits(float(np.ptp(shown)))).T.tolist()
    return dict(
        type="scatter",
        x=x,
        y=y,
        mode="markers",
        showlegend=False,
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
            "color": [fill if is_inside else hue for fill, hue, is_inside in zip(fills, hues, within, strict=True)],
            "line": {
                "color": [
                    outline if is_inside else hue
                    for outline, hue, is_inside in zip(outlines, hues, within, strict=True)
                ],
                "width": [
                    1.4 if is_inside and one == 0 else 1 if is_inside else 2
                    for is_inside, one in zip(within, layer[rows], strict=True)
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


def _digits(span: float) -> int:
    """Decimals of a coordinate that are less than a pixel of a picture a thousand pixels wide, or ten."""
    return int(4 - np.floor(np.log10(max(span, 1e-9))))


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
