"""Results as Plotly figures and small HTML drawings; nothing here knows Streamlit.

Every function returns a `Picture`: the figure, an alternative text that states the finding with numbers, and a caption.
Colours, shapes and sizes follow one set of tokens, checked for contrast and colour-vision deficiencies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

FONT = '"Source Sans", "Source Sans Pro", Arial, sans-serif'
TEXT = 14  # px, the smallest lettering in a figure
SHAPES = ("circle", "diamond", "square", "triangle-up", "pentagon", "cross")
#: The same shapes for captions.
GLYPHS = ("●", "◆", "■", "▲", "⬟", "✚")
NEIGHBOURS = 8  # of a cluster's centroid, which must not share its hue
QUANTILE, MARGIN = 0.94, 1.15  # the frame of the cluster picture: a few outliers must not squeeze the rest
#: Handed to every st.plotly_chart: nothing is sent anywhere, pictures are saved as SVG.
CONFIG: dict[str, Any] = {
    "displaylogo": False, "showSendToCloud": False, "plotlyServerURL": "", "displayModeBar": False, "scrollZoom": False,
    "toImageButtonOptions": {"format": "svg"},
}  # fmt: skip


@dataclass(frozen=True)
class Palette:
    """One theme's colours."""

    paper: str
    ink: str
    muted: str
    accent: str
    line: str
    grey: str
    """Singletons, and networks that are not the subject"""
    outline: str
    hues: tuple[str, ...]

    @property
    def grouping(self) -> str:
        return self.hues[0]

    @property
    def approximation(self) -> str:
        return self.hues[1]


LIGHT = Palette(
    "#FFFFFF", "#111111", "#595955", "#0B6E6E", "#D9D9D4", "#8A8A85", "#3A3A38",
    ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"),
)  # fmt: skip
DARK = Palette(
    "#161614", "#F2F2F0", "#A9A9A4", "#4FC3BF", "#3A3A37", "#6F6F6C", "#0B0B0A",
    ("#4BA3E3", "#F0B429", "#2CC295", "#E79BC4", "#8CD3FF", "#FF8A4C"),
)  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """A figure with its words."""

    figure: go.Figure
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class Network:
    """One measured network: a row of the accuracy figures."""

    name: str
    role: str
    """parent, reference or fused"""
    accuracy: float
    per_class: Sequence[float | None]
    chosen: bool = False


def number(value: float, digits: int = 1) -> str:
    """A number with a true minus sign."""
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def percent(value: float) -> str:
    """A number of per cent whose sign does not slip to the next line."""
    return f"{number(value)}\N{NO-BREAK SPACE}%"


def listing(words: Sequence[str]) -> str:
    """ "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else list(words))


# --- accuracy -------------------------------------------------------------------------------------


def accuracy_bars(networks: Sequence[Network], palette: Palette) -> Picture:
    """Accuracy of each network; parents and references in grey, fused networks in the accent."""
    fused = [network.role == "fused" for network in networks]
    names = [_emphasis(network) for network in networks]
    bars = go.Bar(
        x=[network.accuracy for network in networks],
        y=names,
        orientation="h",
        width=0.68,
        marker={
            "color": [palette.accent if is_fused else palette.grey for is_fused in fused],
            "line": {"color": [palette.ink if network.chosen else "rgba(0,0,0,0)" for network in networks], "width": 2},
            # Shape and hatch say again what the colour says.
            "pattern": {"shape": ["/" if network.role == "reference" else "" for network in networks],
                        "fillmode": "overlay", "fgcolor": palette.paper, "size": 7, "solidity": 0.25},
        },
        text=[f" {number(network.accuracy)}" for network in networks],
        textposition="outside",
        textfont={"color": palette.ink, "size": TEXT},
        cliponaxis=False,
        hovertemplate="%{y}: %{x:.2f} %<extra></extra>",
    )  # fmt: skip
    figure = go.Figure(bars)
    figure.update_layout(**_layout(palette, height=44 + 34 * len(networks)))
    figure.update_xaxes(
        range=[0, 114], tickvals=[0, 50, 100], ticktext=["0", "50", "100 %"], side="top", **_axis(palette)
    )
    figure.update_yaxes(**_rows(palette))
    figure.update_layout(margin={"l": _room(names), "r": 4, "t": 30, "b": 10})
    words = ", ".join(f"{network.name} {number(network.accuracy)}" for network in networks)
    return Picture(figure, f"Bar chart of test accuracy in per cent: {words}.")


def class_grid(networks: Sequence[Network], classes: Sequence[str], palette: Palette) -> Picture:
    """Accuracy of each network on each class, numbers in the cells."""
    values = [[np.nan if value is None else value for value in network.per_class] for network in networks]
    text = [["–" if np.isnan(value) else f"{value:.0f}" for value in row] for row in values]
    dark_paper = palette is DARK
    # The low end is the page itself, so that what a network has never seen looks empty.
    low, high = ("#232320", "#2F8F8B") if dark_paper else ("#F4F4F1", palette.accent)
    figure = go.Figure(
        go.Heatmap(
            z=values, x=[f"“{name}”" if not name.isalnum() else name for name in classes],
            y=[_emphasis(network) for network in networks], text=text, texttemplate="%{text}",
            textfont={"size": 13}, colorscale=[[0, low], [1, high]], zmin=0, zmax=100, xgap=2, ygap=2, showscale=False,
            hoverongaps=False, hovertemplate="%{y}<br>class %{x}: %{z:.1f} %<extra></extra>",
        )
    )  # fmt: skip
    figure.update_layout(**_layout(palette, height=44 + 34 * len(networks)))
    figure.update_xaxes(side="top", type="category", ticks="", showgrid=False, zeroline=False, fixedrange=True,
                        tickfont={"size": TEXT, "color": palette.ink})  # fmt: skip
    figure.update_yaxes(**_rows(palette))
    figure.update_layout(margin={"l": _room([network.name for network in networks]), "r": 4, "t": 30, "b": 10})
    return Picture(figure, f"Table of accuracy by class. {_weakest(networks, classes)}")


def _weakest(networks: Sequence[Network], classes: Sequence[str]) -> str:
    words = []
    for network in networks:
        known = [(value, name) for value, name in zip(network.per_class, classes, strict=True) if value is not None]
        zeros = [name for value, name in known if value < 5]
        if zeros:
            words.append(f"{network.name} fails on {listing(zeros)}")
        elif known:
            value, name = min(known)
            words.append(f"{network.name} is weakest on {name} with {number(value, 0)} per cent")
    return "; ".join(words) + "."


def _emphasis(network: Network) -> str:
    return f"<b>{escape(network.name)}</b>" if network.chosen else escape(network.name)


def class_card(title: str, subtitle: str, per_class: Sequence[float | None], classes: Sequence[str], palette: Palette,
               *, fused: bool = False, seen: Sequence[bool] | None = None) -> str:  # fmt: skip
    """One network as HTML: a column per class, as high as its accuracy; classes without training images are hollow."""
    colour = palette.accent if fused else palette.grey
    columns = []
    for index, (name, value) in enumerate(zip(classes, per_class, strict=True)):
        known = seen[index] if seen else (value or 0) >= 5
        height = max(2, round(0.72 * (value or 0)))
        label = f"<b>{escape(name)}</b>" if known else f"<span style='opacity:.75'>{escape(name)}</span>"
        fill = colour if known else "transparent"
        columns.append(
            f"<div style='flex:1;min-width:0;text-align:center'><div style='height:76px;display:flex;align-items:flex-end'>"
            f"<div style='width:100%;height:{height}px;background:{fill};border:1px solid {colour};box-sizing:border-box;"
            f"border-radius:2px 2px 0 0'></div></div><div style='font-size:14px;line-height:1.5;color:{palette.ink}'>"
            f"{label}</div></div>"
        )
    known = [name for index, name in enumerate(classes) if (seen[index] if seen else (per_class[index] or 0) >= 5)]
    alt = f"{title}, {subtitle}: knows {len(known)} of {len(classes)} classes ({', '.join(known)})."
    border = f"2px solid {palette.accent}" if fused else f"1px solid {palette.line}"
    return (
        f"<div role='img' aria-label='{escape(alt, quote=True)}' style='flex:1 1 0;min-width:0;border:{border};"
        f"border-radius:8px;padding:10px 14px 8px;color:{palette.ink}'><div style='font-weight:600;font-size:16px'>"
        f"{escape(title)}</div><div style='font-size:14px;color:{palette.muted};margin-bottom:6px'>{escape(subtitle)}</div>"
        f"<div style='display:flex;gap:4px'>{''.join(columns)}</div></div>"
    )


def cards(left: Sequence[str], right: str, palette: Palette) -> str:
    """Parents, an arrow, the fused network; below each other on narrow screens."""
    style = (
        "<style>.retrofit-cards{display:flex;gap:10px}.retrofit-cards .sign{align-self:center;font-size:22px;line-height:1}"
        "@media(max-width:700px){.retrofit-cards{flex-direction:column}.retrofit-cards .arrow{transform:rotate(90deg)}}</style>"
    )
    plus = f"<div class='sign' aria-hidden='true' style='color:{palette.muted}'>+</div>"
    arrow = f"<div class='sign arrow' aria-hidden='true' style='color:{palette.muted}'>→</div>"
    return f"{style}<div class='retrofit-cards'>{plus.join(left)}{arrow}{right}</div>"


# --- levels ---------------------------------------------------------------------------------------


def level_errors(table: Any, palette: Palette, chosen: int | None = None) -> Picture:
    """Grouping and approximation error of each level, stacked, in per cent of the parents' weighted energy there.

    Args:
        table: `results.frame(levels)`.
    """
    names = [f"{index + 1}" for index in range(len(table))]
    figure = go.Figure()
    for column, label, colour, pattern in (
        ("grouping share", "grouping", palette.grouping, ""),
        ("approximation share", "approximation", palette.approximation, "/"),
    ):
        figure.add_bar(
            x=names, y=100 * table[column], name=label, width=0.62, customdata=table[["level"]],
            marker={"color": colour, "line": {"color": palette.outline, "width": 1},
                    "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": palette.outline, "size": 6, "solidity": 0.3}},
            hovertemplate="level %{x}, %{customdata[0]}<br>" + label + ": %{y:.2f} %<extra></extra>",
        )  # fmt: skip
    total = 100 * (table["grouping share"] + table["approximation share"])
    figure.add_scatter(
        x=names, y=total, mode="text", text=[number(value) for value in total], textposition="top center",
        textfont={"color": palette.ink, "size": TEXT}, showlegend=False, hoverinfo="skip", cliponaxis=False,
    )  # fmt: skip
    if chosen is not None:
        figure.add_shape(type="rect", xref="x", yref="paper", x0=chosen - 0.42, x1=chosen + 0.42, y0=0, y1=1,
                         line={"color": palette.accent, "width": 2}, fillcolor="rgba(0,0,0,0)")  # fmt: skip
    figure.update_layout(**_layout(palette, height=250), barmode="stack",
                         legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal",
                                 "font": {"size": TEXT, "color": palette.ink}})  # fmt: skip
    figure.update_layout(margin={"l": 4, "r": 4, "t": 40, "b": 40})
    figure.update_xaxes(
        title={"text": "level", "standoff": 4, "font": {"size": TEXT}},
        type="category",
        **_axis(palette),
        showgrid=False,
    )
    figure.update_yaxes(
        range=[0, max(float(total.max()) * 1.22, 1e-9)], ticksuffix=" %", automargin=True, **_axis(palette)
    )
    worst = int(np.argmax(total))
    row = table.iloc[worst]
    part = row["grouping share"] / max(row["grouping share"] + row["approximation share"], 1e-300)
    finding = (
        f"Level {worst + 1} ({row['level']}) loses most: {percent(total.iloc[worst])} of its neurons' energy, "
        f"{100 * part:.0f}\N{NO-BREAK SPACE}% of that by grouping."
    )
    return Picture(
        figure, f"Stacked bars of grouping and approximation error over {len(table)} levels. {finding}", finding
    )


# --- clusters -------------------------------------------------------------------------------------


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
    figure.update_layout(**_layout(palette, height=430))
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


# --- shared ---------------------------------------------------------------------------------------


def _component_title(number: int, share: float) -> dict[str, Any]:
    return {"text": f"principal component {number} ({100 * share:.0f} %)", "standoff": 6, "font": {"size": TEXT}}


def _layout(palette: Palette, height: int) -> dict[str, Any]:
    return {
        "template": "none", "height": height, "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": TEXT, "color": palette.ink}, "dragmode": False,
        "hoverlabel": {"bgcolor": palette.paper, "font": {"color": palette.ink, "size": TEXT}, "bordercolor": palette.muted},
    }  # fmt: skip


def _rows(palette: Palette) -> dict[str, Any]:
    """The vertical axis of a figure with one row per network."""
    return {"autorange": "reversed", "showgrid": False, "zeroline": False, "ticks": "", "ticklabelstandoff": 4,
            "fixedrange": True, "tickfont": {"size": TEXT, "color": palette.ink}}  # fmt: skip


def _room(names: Sequence[str]) -> int:
    """Pixels for row names; Plotly's own estimate cuts the longest one off."""
    return 14 + round(7.2 * max(len(name.replace("<b>", "").replace("</b>", "")) for name in names))


def _axis(palette: Palette) -> dict[str, Any]:
    return {"gridcolor": palette.line, "zerolinecolor": palette.line, "linecolor": palette.line, "fixedrange": True,
            "tickfont": {"size": TEXT, "color": palette.muted}}  # fmt: skip
