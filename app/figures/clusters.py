"""The neurons of a level as they are grouped."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

from .palette import GLYPHS, SHAPES, TEXT, Palette
from .picture import Picture, layout

NEIGHBOURS = 8  # of a cluster's centroid, which must not share its hue
QUANTILE, MARGIN = 0.94, 1.15  # the frame of the cluster picture: a few outliers must not squeeze the rest


def clusters(level: Any, palette: Palette) -> Picture:
    """A level's neurons in the plane of their first two principal components, as grouped (the paper's cluster figure).

    Ink: the densest cluster (most members; on a tie the lowest mean distance to its centroid), with spokes to its
    importance-weighted centroid. Grey: clusters of one. Other clusters: six hues, none shared by neighbours. Shape:
    parent. Area: importance in multiples of the mean. Neurons outside the frame stand open on its border.

    Args:
        level: a `LevelReport`.
    """
    points = level.coordinates.numpy()[:, :2]  # (m, 2)
    labels, parents = level.labels.numpy(), level.parents.numpy()
    unit = mark_size(len(labels))
    weights = level.scores.double().numpy()
    weights = weights / max(weights.mean(), 1e-300)  # importance in multiples of uniform
    sizes = np.clip(unit * np.sqrt(weights), 4, 26)
    counts = np.bincount(labels, minlength=level.width)
    densest = densest_cluster(points, labels, weights)
    hue = neighbour_hues(points, labels, weights, len(palette.hues), first=densest)
    centre, reach = _frame(points)
    inside = (np.abs(points - centre) <= reach).all(1)
    shown = np.clip(points, centre - reach, centre + reach)

    figure = go.Figure()
    if densest is not None:
        middle = _centroid(points, weights, labels == densest)
        for x, y in points[(labels == densest) & inside]:
            figure.add_scatter(x=[x, middle[0]], y=[y, middle[1]], mode="lines", hoverinfo="skip", showlegend=False,
                               line={"color": palette.ink, "width": 0.8})  # fmt: skip
    order = np.argsort(-sizes, kind="stable")  # large marks below, small above
    layers = (counts[labels] == 1, (counts[labels] > 1) & (labels != densest), labels == densest)
    for kind, layer in zip(("alone", "cluster", "densest"), layers, strict=True):
        for is_inside in (True, False):
            rows = order[(layer & (inside == is_inside))[order]]
            if len(rows):
                figure.add_trace(
                    _marks(kind, is_inside, rows, shown, sizes, parents, labels, weights, counts, hue, level, palette)
                )
        if kind == "cluster" and densest is not None:  # the centroid: above the other clusters, below its own members
            figure.add_scatter(x=[middle[0]], y=[middle[1]], mode="markers", hoverinfo="skip", showlegend=False,
                               marker={"symbol": "cross-thin", "size": 16, "color": palette.hues[5],
                                       "line": {"color": palette.hues[5], "width": 2.5}})  # fmt: skip
    figure.update_layout(**layout(palette, height=430))
    figure.update_layout(margin={"l": 28, "r": 8, "t": 8, "b": 34}, dragmode=False)
    frame = {"showgrid": False, "zeroline": False, "showticklabels": False, "fixedrange": True, "mirror": True,
             "showline": True, "linecolor": palette.line, "ticks": "",
             "constrain": "domain", "constraintoward": "center"}  # fmt: skip
    explained = level.explained.numpy()
    padding = reach * 1.06
    figure.update_xaxes(range=[centre[0] - padding, centre[0] + padding], **frame,
                        title=_component_title(1, explained[0]))  # fmt: skip
    figure.update_yaxes(range=[centre[1] - padding, centre[1] + padding], scaleanchor="x",
                        title=_component_title(2, explained[1]), **{**frame, "constraintoward": "top"})  # fmt: skip
    alone, off = int((counts == 1).sum()), int((~inside).sum())
    mixed = sum(len(set(parents[labels == cluster])) > 1 for cluster in range(level.width))
    hidden = max(0.0, 1 - float(explained[:2].sum()))
    largest = int(counts.max())
    facts = [
        f"{' + '.join(map(str, level.widths))} neurons in {level.width} clusters",
        f"{mixed} with members of more than one parent",
        f"densest {largest}" if densest is not None else "no cluster has more than one member",
        f"{alone} alone",
    ] + ([f"{off} off-scale"] if off else [])
    alt = (
        f"Scatter plot of the neurons of level {level.name} on two principal components: {', '.join(facts)}. "
        f"The plane hides {100 * hidden:.0f} % of the variance."
    )
    return Picture(figure, alt, f"{' · '.join(facts)} · PCA hides {100 * hidden:.0f}\N{NO-BREAK SPACE}%")


def _marks(kind: str, is_inside: bool, rows: np.ndarray, shown: np.ndarray, sizes: np.ndarray, parents: np.ndarray,
           labels: np.ndarray, weights: np.ndarray, counts: np.ndarray, hue: np.ndarray, level: Any,
           palette: Palette) -> go.Scatter:  # fmt: skip
    first = np.cumsum([0, *level.widths])
    shapes = [SHAPES[parent % len(SHAPES)] for parent in parents[rows]]
    if kind == "densest":
        colours = [palette.ink] * len(rows)
    elif kind == "alone":
        colours = [palette.grey] * len(rows)
    else:
        colours = [palette.hues[index] for index in hue[labels[rows]]]
    outline = palette.paper if kind == "densest" else palette.outline
    return go.Scatter(
        x=shown[rows, 0], y=shown[rows, 1], mode="markers", showlegend=False,
        # The neuron's number travels with the mark: positions in a trace mean nothing.
        customdata=np.column_stack([rows, labels[rows], parents[rows], rows - first[parents[rows]],
                                    counts[labels[rows]], weights[rows].round(3)]),
        marker={
            "symbol": [shape if is_inside else f"{shape}-open" for shape in shapes],
            "size": [size * (1.2 if shape == "cross" else 1) for size, shape in zip(sizes[rows], shapes, strict=True)],
            "color": colours, "opacity": 0.55 if kind == "alone" and is_inside else 1,
            "line": {"color": outline if is_inside else colours, "width": 1 if is_inside else 2},
        },
        hovertemplate=("parent %{customdata[2]}, neuron %{customdata[3]}<br>cluster %{customdata[1]}, "
                       "%{customdata[4]} members<br>importance %{customdata[5]} × mean"
                       + ("" if is_inside else "<br>off-scale") + "<extra></extra>"),
    )  # fmt: skip


def mark_size(neurons: int) -> float:
    """Diameter in pixels of a neuron of mean importance: 7 from 256 neurons on, more where there is room."""
    return 7 * float(np.clip((256 / max(neurons, 1)) ** 0.25, 1, 1.7))


def densest_cluster(points: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> int | None:
    """The cluster with most members, on a tie the one with the lowest mean distance to its weighted centroid; None if
    every neuron is alone."""
    counts = np.bincount(labels)
    if counts.max() < 2:
        return None
    tied = np.flatnonzero(counts == counts.max()).tolist()

    def spread(cluster: int) -> float:
        members = labels == cluster
        return float(np.linalg.norm(points[members] - _centroid(points, weights, members), axis=1).mean())

    return min(tied, key=spread)


def neighbour_hues(
    points: np.ndarray, labels: np.ndarray, weights: np.ndarray, hues: int, first: int | None = None
) -> np.ndarray:
    """A hue (0..hues-1) for each cluster, unlike its nearest clusters': a greedy colouring of the graph of nearest
    centroids, big clusters first. Colour separates neighbours; it does not name a cluster. The cluster `first` gets the
    last hue, in which its centroid is drawn, so that no neighbour has it."""
    counts = np.bincount(labels)
    several = np.flatnonzero(counts > 1)
    hue = np.zeros(len(counts), dtype=int)
    if not len(several):
        return hue
    centroids = np.stack([_centroid(points, weights, labels == cluster) for cluster in several])
    distance = np.linalg.norm(centroids[:, None] - centroids[None], axis=2)
    nearest = distance.argsort(1, kind="stable")[:, 1 : NEIGHBOURS + 1]
    linked = np.zeros_like(distance, dtype=bool)
    for row, others in enumerate(nearest):
        linked[row, others] = linked[others, row] = True
    given = np.full(len(several), -1)
    given[several == first] = hues - 1
    for row in np.argsort(-counts[several], kind="stable"):
        if given[row] >= 0:
            continue
        # More neighbours than hues: take the hue whose nearest bearer is farthest away.
        near = [distance[row, linked[row] & (given == candidate)] for candidate in range(hues)]
        gaps = [float(found.min(initial=np.inf)) for found in near]
        used = np.bincount(given[given >= 0], minlength=hues)
        given[row] = max(range(hues), key=lambda candidate: (gaps[candidate], -used[candidate], -candidate))
    hue[several] = given
    return hue


def cluster_key(parents: Sequence[str], neurons: int, palette: Palette) -> str:
    """The legend as HTML below the figure, where it takes no width from it and prints."""
    shapes = " &nbsp; ".join(f"{GLYPHS[index % len(GLYPHS)]}&nbsp;{escape(name)}" for index, name in enumerate(parents))
    unit = mark_size(neurons)
    dots = "".join(
        f"<span style='display:inline-block;width:{size}px;height:{size}px;border-radius:50%;border:1px solid {palette.ink};"
        f"margin:0 3px 0 8px;vertical-align:middle'></span>{label}"
        for size, label in ((round(unit / 2), "¼×"), (round(unit), "1×"), (round(2 * unit), "4×"))
    )
    swatch = "display:inline-block;width:11px;height:11px;border-radius:50%;vertical-align:-1px;margin-right:4px;"
    items = [
        shapes,
        f"area: importance ÷ mean{dots}",
        f"<span style='{swatch}background:{palette.ink}'></span>densest cluster, lines to its centroid "
        f"<span style='color:{palette.hues[5]};font-weight:700'>+</span>",
        f"<span style='{swatch}background:{palette.grey};opacity:.6'></span>alone",
        "other colours only tell neighbouring clusters apart",
    ]
    words = "".join(
        f"<span style='white-space:normal;margin-right:18px;display:inline-block'>{item}</span>" for item in items
    )
    return f"<div style='font-size:14px;line-height:1.8;color:{palette.muted}'>{words}</div>"


def _frame(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Centre (2,) and half-width of a square frame that outliers cannot stretch."""
    centre = np.median(points, axis=0)
    away = np.abs(points - centre).max(1)
    return centre, float(max(np.quantile(away, QUANTILE) * MARGIN, 1e-9))


def _centroid(points: np.ndarray, weights: np.ndarray, members: np.ndarray) -> np.ndarray:
    total = weights[members].sum()
    return np.average(points[members], axis=0, weights=weights[members] if total > 0 else None)


def _component_title(number: int, share: float) -> dict[str, Any]:
    return {"text": f"principal component {number} ({100 * share:.0f} %)", "standoff": 6, "font": {"size": TEXT}}
