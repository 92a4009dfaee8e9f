"""How good each network is: bars with their intervals, and a grid of classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from .drawing import NOTHING, bars, cells, class_axis, edge, lettering, plot, room, rows
from .noise import interval, margin
from .palette import Palette, scale, shade
from .picture import Picture, listing, quoted, share
from .tiles import KNOWN


@dataclass(frozen=True)
class Network:
    """One measured network: a row of the accuracy figures."""

    name: str
    role: str
    """parent, reference or fused"""
    accuracy: float
    per_class: Sequence[float | None]
    chosen: bool = False
    samples: int = 0
    """Test images on which it was measured; 0 for unknown: then there is no interval"""

    @property
    def words(self) -> str:
        """ "network A 49.6 ± 5.2"."""
        return f"{self.name} {share(self.accuracy)} {interval(self.accuracy, self.samples)}".strip()


def accuracy_bars(networks: Sequence[Network], palette: Palette) -> Picture:
    """Accuracy of each network with its 95 % interval; parents and references in grey, fused networks in the accent."""
    margins = [margin(network.accuracy, images=network.samples) if network.samples else 0.0 for network in networks]
    fused = [network.role == "fused" for network in networks]
    names = [_emphasis(network) for network in networks]
    edges = [palette.ink if network.chosen else NOTHING for network in networks]
    # Shape and hatch say again what the colour says.
    shapes = ["/" if network.role == "reference" else "" for network in networks]
    pattern = {"shape": shapes, "fillmode": "overlay", "fgcolor": palette.paper, "size": 7, "solidity": 0.25}
    colours = [palette.accent if is_fused else palette.grey for is_fused in fused]
    accuracies = [network.accuracy for network in networks]
    traces = [
        bars(
            accuracies,
            names,
            orientation="h",
            width=0.68,
            marker={"color": colours, "line": edge(edges, 2), "pattern": pattern},
            error_x={"array": margins, "color": palette.ink, "thickness": 1.5, "width": 4, "visible": any(margins)},
            customdata=[network.words for network in networks],
            hovertemplate="%{customdata} %<extra></extra>",
        ),
        lettering(  # right of the interval, not on it
            [accuracy + each for accuracy, each in zip(accuracies, margins, strict=True)],
            names,
            [f"  {share(accuracy)}" for accuracy in accuracies],
            textposition="middle right",
        ),
    ]
    figure = plot(
        palette,
        traces,
        44 + 34 * len(networks),
        (room(names), 4, 30, 10),
        xaxis={"range": [0, 118], "tickvals": [0, 50, 100], "ticktext": ["0", "50", "100 %"], "side": "top"},
        yaxis=rows(palette),
    )
    words = ", ".join(network.words for network in networks)
    return Picture(figure, f"Bar chart of test accuracy in per cent: {words}.")


def class_grid(networks: Sequence[Network], classes: Sequence[str], palette: Palette) -> Picture:
    """Accuracy of each network on each class, numbers in the cells."""
    values = [[np.nan if value is None else value for value in network.per_class] for network in networks]
    text = [["–" if np.isnan(value) else share(value, 0) for value in row] for row in values]
    columns, names = [quoted(name) for name in classes], [_emphasis(network) for network in networks]
    # Not the heat map's own lettering: that is one grey for light cells and one for dark ones, and hard to read on those between.
    inks = [palette.ink if np.isnan(value) else shade(value / 100, palette)[1] for row in values for value in row]
    traces = [
        cells(
            columns,
            names,
            values,
            scale(palette),
            100,
            2,
            hovertemplate="%{y}<br>class %{x}: %{z:.1f} %<extra></extra>",
        ),
        lettering(
            columns * len(names),
            [name for name in names for _ in columns],
            [word for row in text for word in row],
            textfont={"size": 13, "color": inks},
        ),
    ]
    top, across = class_axis("class", classes, palette)
    figure = plot(
        palette,
        traces,
        14 + top + 34 * len(networks),
        (room([network.name for network in networks]), 4, top, 10),
        xaxis={**across, "type": "category"},
        yaxis=rows(palette),
    )
    return Picture(figure, f"Table of accuracy by class. {_weakest(networks, classes)}")


def _weakest(networks: Sequence[Network], classes: Sequence[str]) -> str:
    words = []
    for network in networks:
        values = [(value, name) for value, name in zip(network.per_class, classes, strict=True) if value is not None]
        zeros = [name for value, name in values if value < KNOWN]
        if zeros:
            words.append(f"{network.name} fails on {listing(zeros)}")
        elif values:
            value, name = min(values)
            words.append(f"{network.name} is weakest on {name} with {share(value, 0)} per cent")
    return "; ".join(words) + "."


def _emphasis(network: Network) -> str:
    return f"<b>{escape(network.name)}</b>" if network.chosen else escape(network.name)
