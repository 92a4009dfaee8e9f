"""The neurons of a level as they are grouped."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import plotly.graph_objects as go

from .palette import GLYPHS, SHAPES, TEXT, Palette
from .picture import Picture, layout, letter, number, percent, unchecked

NEIGHBOURS = 8  # of a cluster's centroid, which must not share its hue
QUANTILE, MARGIN = 0.94, 1.15  # the frame of the cluster picture: a few outliers must not squeeze the rest


@dataclass(frozen=True, eq=False)
class Neurons:
    """A level's m neurons as one grouping sees them."""

    name: str
    widths: tuple[int, ...]
    points: np.ndarray
    """(m, 2) principal components"""
    explained: np.ndarray
    """(2,) shares of the variance"""
    labels: np.ndarray
    """(m,) cluster of each neuron, 0..width-1"""
    width: int
    weights: np.ndarray
    """(m,) importance in multiples of the mean"""

    @cached_property
    def parents(self) -> np.ndarray:
        """(m,) parent of each neuron."""
        return np.repeat(np.arange(len(self.widths)), self.widths)

    @cached_property
    def numbers(self) -> np.ndarray:
        """(m,) number of each neuron within its parent."""
        return np.concatenate([np.arange(width) for width in self.widths])

    @cached_property
    def names(self) -> list[str]:
        """The name of each neuron; A3 is neuron 3 of network A."""
        return [f"{letter(parent)}{number}" for parent, number in zip(self.parents, self.numbers, strict=True)]

    @cached_property
    def counts(self) -> np.ndarray:
        """(width,) members of each cluster."""
        return np.bincount(self.labels, minlength=self.width)

    @cached_property
    def mixed(self) -> np.ndarray:
        """(width,) whether a cluster has members of more than one network."""
        table = np.zeros((self.width, len(self.widths)), dtype=bool)
        table[self.labels, self.parents] = True
        return table.sum(1) > 1

    @cached_property
    def densest(self) -> int | None:
        """See `densest_cluster`."""
        return densest_cluster(self.points, self.labels, self.weights)

    @cached_property
    def distances(self) -> np.ndarray:
        """(m,) distance of each neuron to its cluster's centroid in the plane."""
        total = np.bincount(self.labels, self.weights, self.width)
        even = total[self.labels] <= 0  # members without importance count alike
        weights = np.where(even, 1.0, self.weights)
        sums = [np.bincount(self.labels, weights * axis, self.width) for axis in self.points.T]
        counted = np.maximum(np.bincount(self.labels, weights, self.width), 1e-300)
        centroids = np.stack(sums, axis=1) / counted[:, None]
        return np.where(
            self.counts[self.labels] == 1, 0.0, np.linalg.norm(self.points - centroids[self.labels], axis=1)
        )

    @property
    def hidden(self) -> float:
        """Share of the variance that the plane does not show."""
        return max(0.0, 1 - float(self.explained[:2].sum()))


def neurons(level: Any, labels: Any = None, scores: Any = None) -> Neurons:
    """What the cluster pictures need of a `LevelReport`; by default as the run itself grouped it.

    Args:
        labels, scores: (m,) tensors of another grouping of the same neurons.
    """
    weights = (level.scores if scores is None else scores).double().numpy()
    labels = (level.labels if labels is None else labels).numpy()
    return Neurons(
        level.name,
        tuple(level.widths),
        level.coordinates.numpy()[:, :2],
        level.explained.numpy()[:2],
        labels,
        max(level.width, int(labels.max()) + 1),
        weights / max(weights.mean(), 1e-300),
    )


def clusters(
    level: Any,
    palette: Palette,
    *,
    picked: Sequence[int] = (),
    marked: Sequence[int] = (),
    followed: Sequence[int] = (),
    whole: bool = False,
    drag: str | None = None,
    height: int = 430,
) -> Picture:
    """A level's neurons in the plane of their first two principal components, as grouped (the paper's cluster figure).

    Ink: the densest cluster (most members; on a tie the lowest mean distance to its centroid), with spokes to its
    importance-weighted centroid. Grey: clusters of one. Other clusters: six hues, none shared by neighbours. Shape:
    parent. Area: importance in multiples of the mean. Neurons outside the frame stand open on its border.

    Args:
        level: a `LevelReport`, or `Neurons`.
        picked: neurons that stay bright while the others are dimmed.
        marked: neurons with a ring.
        followed: neurons with lines to their common centre: members of one cluster of this or another grouping.
        whole: whether the frame holds every neuron.
        drag: "lasso" or "select", to pick neurons; None leaves a finger's drag to the page.
    """
    grouped = level if isinstance(level, Neurons) else neurons(level)
    sizes = np.clip(mark_size(len(grouped.labels)) * np.sqrt(grouped.weights), 4, 26)
    hue = neighbour_hues(grouped.points, grouped.labels, grouped.weights, len(palette.hues), first=grouped.densest)
    centre, reach = _frame(grouped.points, whole)
    inside: np.ndarray = np.abs(grouped.points - centre).max(axis=1) <= reach * (1 + 1e-9)
    shown = np.clip(grouped.points, centre - reach, centre + reach)
    colours = np.array(palette.hues, dtype=object)[hue[grouped.labels]]
    colours[grouped.counts[grouped.labels] == 1] = palette.grey
    members = grouped.labels == grouped.densest if grouped.densest is not None else np.zeros(len(inside), dtype=bool)
    colours[members] = palette.ink

    traces: list[dict[str, Any]] = []
    middle = _centroid(grouped.points, grouped.weights, members) if members.any() else None
    if middle is not None:
        traces.append(_spokes(grouped.points[members & inside], middle, palette.ink))
    if len(followed):
        chosen = np.asarray(followed, dtype=int)
        traces.append(_spokes(shown[chosen], shown[chosen].mean(axis=0), palette.accent, 1.6))
    order = np.argsort(-sizes, kind="stable")  # large marks below, small above
    layer = np.where(members, 2, np.where(grouped.counts[grouped.labels] > 1, 1, 0))  # the densest cluster lies on top
    rows = order[np.argsort(layer[order], kind="stable")]
    traces.append(_marks(rows, inside, shown, sizes, colours, layer, grouped, palette, picked))
    if middle is not None:
        traces.append(
            {
                "type": "scatter",
                "x": [float(middle[0])],
                "y": [float(middle[1])],
                "mode": "markers",
                "hoverinfo": "skip",
                "showlegend": False,
                "marker": {
                    "symbol": "cross-thin",
                    "size": 16,
                    "color": palette.hues[5],
                    "line": {"color": palette.hues[5], "width": 2.5},
                },
            }
        )
    if len(marked):
        traces.append(_rings(np.asarray(marked, dtype=int), shown, sizes, grouped, palette))
    figure = unchecked(traces)
    _square(figure, grouped, centre, reach, palette, height)
    figure.update_layout(dragmode=drag or False, clickmode="event" if drag else "event+select")
    key = cluster_key(len(grouped.widths), len(grouped.labels), palette)
    return Picture(figure, *_cluster_words(grouped, int((~inside).sum())), key)


def activations(level: Any, palette: Palette, *, height: int = 430) -> Picture:
    """The same plane before any grouping: one hue and shape per parent."""
    grouped = level if isinstance(level, Neurons) else neurons(level)
    centre, reach = _frame(grouped.points)
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
    _square(figure, grouped, centre, reach, palette, height)
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
    rows: np.ndarray, shown: np.ndarray, sizes: np.ndarray, grouped: Neurons, palette: Palette
) -> dict[str, Any]:
    names = [grouped.names[row] for row in rows]
    return {
        "type": "scatter",
        "x": shown[rows, 0].tolist(),
        "y": shown[rows, 1].tolist(),
        "hoverinfo": "skip",
        "showlegend": False,
        "cliponaxis": False,
        "mode": "markers+text" if len(rows) <= 12 else "markers",
        "text": names,
        "textposition": "top center",
        "textfont": {"color": palette.accent, "size": TEXT},
        "marker": {
            "symbol": "circle-open",
            "size": (sizes[rows] + 9).tolist(),
            "color": palette.accent,
            "line": {"color": palette.accent, "width": 2},
        },
    }


def _square(
    figure: go.Figure, grouped: Neurons, centre: np.ndarray, reach: float, palette: Palette, height: int
) -> None:
    figure.update_layout(**layout(palette, height=height))
    figure.update_layout(margin={"l": 28, "r": 8, "t": 8, "b": 34})
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
        range=[centre[0] - padding, centre[0] + padding], **frame, title=_component_title(1, grouped.explained[0])
    )
    figure.update_yaxes(
        range=[centre[1] - padding, centre[1] + padding],
        scaleanchor="x",
        title=_component_title(2, grouped.explained[1]),
        **{**frame, "constraintoward": "top"},
    )


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


def same_numbers(grouped: Neurons) -> bool:
    """Whether each cluster holds neurons of one number only, as where a class joins the same class of other networks."""
    sums = np.bincount(grouped.labels, grouped.numbers, grouped.width)
    return bool((sums[grouped.labels] == grouped.numbers * grouped.counts[grouped.labels]).all())


def destinations(grouped: Neurons, rows: Sequence[int]) -> list[tuple[int, int]]:
    """Clusters that hold these neurons, and how many of them each; most first."""
    clusters, counts = np.unique(grouped.labels[np.asarray(rows, dtype=int)], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return list(zip(clusters[order].tolist(), counts[order].tolist(), strict=True))


def flow(before: Neurons, after: Neurons) -> str:
    """Where the members of the densest cluster went: "63 → 81: 40 stayed, 23 left, 41 joined"."""
    if before.densest is None or after.densest is None:
        return "no cluster to follow"
    left, right = before.labels == before.densest, after.labels == after.densest
    stayed = int((left & right).sum())
    return f"{left.sum()} → {right.sum()}: {stayed} stayed, {left.sum() - stayed} left, {right.sum() - stayed} joined"


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
    outlines = np.where(layer[rows] == 2, palette.paper, palette.outline).tolist()
    bright = np.flatnonzero(np.isin(rows, np.asarray(picked, dtype=int))).tolist() if len(picked) else None
    faint = (layer[rows] == 0) & inside[rows] & (bright is None)
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
            "symbol": [
                shape if is_inside else f"{shape}-open" for shape, is_inside in zip(shapes, within, strict=True)
            ],
            "size": [
                round(size * (1.2 if shape == "cross" else 1), 1)
                for size, shape in zip(sizes[rows].tolist(), shapes, strict=True)
            ],
            "color": hues,
            "opacity": np.where(faint, palette.alone, 1).tolist(),
            "line": {
                "color": [
                    outline if is_inside else hue
                    for outline, hue, is_inside in zip(outlines, hues, within, strict=True)
                ],
                "width": [1 if is_inside else 2 for is_inside in within],
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
        unselected={"marker": {"opacity": 0.12}},
        **({} if bright is None else {"selectedpoints": bright}),
    )


def _digits(span: float) -> int:
    """Decimals of a coordinate that are less than a pixel of a picture a thousand pixels wide, or ten."""
    return int(4 - np.floor(np.log10(max(span, 1e-9))))


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
    chosen = np.full(len(several), -1)
    chosen[several == first] = hues - 1
    for row in np.argsort(-counts[several], kind="stable"):
        if chosen[row] >= 0:
            continue
        # More neighbours than hues: take the hue whose nearest bearer is farthest away.
        near = [distance[row, linked[row] & (chosen == candidate)] for candidate in range(hues)]
        gaps = [float(distances.min(initial=np.inf)) for distances in near]
        used = np.bincount(chosen[chosen >= 0], minlength=hues)
        chosen[row] = max(range(hues), key=lambda candidate: (gaps[candidate], -used[candidate], -candidate))
    hue[several] = chosen
    return hue


def cluster_key(parents: int, neurons: int, palette: Palette) -> str:
    """The legend as HTML below the figure, where it takes no width from it and prints."""
    shapes = " &nbsp; ".join(f"{GLYPHS[index % len(GLYPHS)]}&nbsp;network {letter(index)}" for index in range(parents))
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
        f"<span style='{swatch}background:{palette.grey};opacity:{palette.alone}'></span>alone",
        "other colours only tell neighbouring clusters apart",
    ]
    words = "".join(
        f"<span style='white-space:normal;margin-right:18px;display:inline-block'>{item}</span>" for item in items
    )
    return f"<div style='font-size:.875rem;line-height:1.8;color:{palette.muted}'>{words}</div>"


def _frame(points: np.ndarray, whole: bool = False) -> tuple[np.ndarray, float]:
    """Centre (2,) and half-width of a square frame that outliers cannot stretch, unless the whole is asked for."""
    centre = np.median(points, axis=0)
    away = np.abs(points - centre).max(1)
    return centre, float(max(away.max() * 1.02 if whole else np.quantile(away, QUANTILE) * MARGIN, 1e-9))


def _centroid(points: np.ndarray, weights: np.ndarray, members: np.ndarray) -> np.ndarray:
    total = weights[members].sum()
    return np.average(points[members], axis=0, weights=weights[members] if total > 0 else None)


def _component_title(number: int, share: float) -> dict[str, Any]:
    return {"text": f"component {number} ({percent(100 * share, 0)})", "standoff": 6, "font": {"size": TEXT}}
