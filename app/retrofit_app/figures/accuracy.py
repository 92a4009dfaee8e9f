"""How good each network is: bars with their intervals, and a grid of classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import plotly.graph_objects as go

from .noise import interval, margin
from .palette import TEXT, Palette, scale, shade
from .picture import Picture, axis, layout, listing, quoted, room, rows, share, titled
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
    bars = go.Bar(
        x=[network.accuracy for network in networks],
        y=names,
        orientation="h",
        width=0.68,
        marker={
            "color": [palette.accent if is_fused else palette.grey for is_fused in fused],
            "line": {"color": [palette.ink if network.chosen else "rgba(0,0,0,0)" for network in networks], "width": 2},
            # Shape and hatch say again what the colour says.
            "pattern": {
                "shape": ["/" if network.role == "reference" else "" for network in networks],
                "fillmode": "overlay",
                "fgcolor": palette.paper,
                "size": 7,
                "solidity": 0.25,
            },
        },
        error_x={"array": margins, "color": palette.ink, "thickness": 1.5, "width": 4, "visible": any(margins)},
        customdata=[network.words for network in networks],
        hovertemplate="%{customdata} %<extra></extra>",
    )
    figure = go.Figure(bars)
    figure.add_scatter(  # right of the interval, not on it
        x=[network.accuracy + each for network, each in zip(networks, margins, strict=True)],
        y=names,
        text=[f"  {share(network.accuracy)}" for network in networks],
        mode="text",
        textposition="middle right",
        textfont={"color": palette.ink, "size": TEXT},
        cliponaxis=False,
        hoverinfo="skip",
    )
    figure.update_layout(**layout(palette, height=44 + 34 * len(networks)), showlegend=False)
    figure.update_xaxes(
        range=[0, 118], tickvals=[0, 50, 100], ticktext=["0", "50", "100 %"], side="top", **axis(palette)
    )
    figure.update_yaxes(**rows(palette))
    figure.update_layout(margin={"l": room(names), "r": 4, "t": 30, "b": 10})
    words = ", ".join(network.words for network in networks)
    return Picture(figure, f"Bar chart of test accuracy in per cent: {words}.")


def class_grid(networks: Sequence[Network], classes: Sequence[str], palette: Palette) -> Picture:
    """Accuracy of each network on each class, numbers in the cells."""
    values = [[np.nan if value is None else value for value in network.per_class] for network in networks]
    text = [["–" if np.isnan(value) else share(value, 0) for value in row] for row in values]
    low, high = scale(palette)
    columns, names = (
        [quoted(name) for name in classes],
        [_emphasis(network) for network in networks],
    )
    figure = go.Figure(
        go.Heatmap(
            z=values,
            x=columns,
            y=names,
            colorscale=[[0, low], [1, high]],
            zmin=0,
            zmax=100,
            xgap=2,
            ygap=2,
            showscale=False,
            hoverongaps=False,
            hovertemplate="%{y}<br>class %{x}: %{z:.1f} %<extra></extra>",
        )
    )
    # Not the heat map's own lettering: that is one grey for light cells and one for dark ones, and hard to read on those between.
    inks = [palette.ink if np.isnan(value) else shade(value / 100, palette)[1] for row in values for value in row]
    figure.add_scatter(
        x=columns * len(names),
        y=[name for name in names for _ in columns],
        text=[word for row in text for word in row],
        mode="text",
        textfont={"size": 13, "color": inks},
        hoverinfo="skip",
        showlegend=False,
        cliponaxis=False,
    )
    upright = max(map(len, classes)) > 3  # long names stand, so that a narrow column cannot cut them
    top = (room(classes) if upright else 30) + 20
    figure.update_layout(**layout(palette, height=14 + top + 34 * len(networks)))
    figure.update_xaxes(
        side="top",
        type="category",
        title=titled("class"),
        tickangle=-90 if upright else 0,
        ticks="",
        showgrid=False,
        zeroline=False,
        fixedrange=True,
        tickfont={"size": TEXT, "color": palette.ink},
    )
    figure.update_yaxes(**rows(palette))
    figure.update_layout(margin={"l": room([network.name for network in networks]), "r": 4, "t": top, "b": 10})
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
