"""What all figures are made of: one Plotly template for each theme, and the few kinds of traces, axes and notes.

Everything is a plain dictionary: Plotly's own check of every entry of every list would take fifty times as long as the rest
for a thousand marks with a colour and a shape each.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import cache
from typing import Any

import plotly.graph_objects as go

from .palette import FONT, TEXT, Palette

Trace = dict[str, Any]
#: The place of a legend: in a row above the axes, or below everything, an entry a line.
ABOVE = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
BELOW = {"y": 0, "yref": "container", "yanchor": "bottom", "x": 0, "bgcolor": "rgba(0,0,0,0)"}
#: An axis without a grid, whose numbers or names are all there is of it.
BARE = {"showgrid": False, "zeroline": False, "ticks": ""}
NOTHING = "rgba(0,0,0,0)"


@cache
def template(palette: Palette) -> dict[str, Any]:
    """Lettering, colours, axes and hover labels of a theme, for Plotly's `layout.template`."""
    axis = {
        "gridcolor": palette.line,
        "zerolinecolor": palette.line,
        "linecolor": palette.line,
        "showline": True,
        "fixedrange": True,
        "tickfont": {"size": TEXT, "color": palette.muted},
        "title": {"standoff": 6, "font": {"size": TEXT}},
    }
    layout = {
        "paper_bgcolor": palette.paper,
        "plot_bgcolor": NOTHING,
        "font": {"family": FONT, "size": TEXT, "color": palette.ink},
        "dragmode": False,
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": palette.paper,
            "font": {"color": palette.ink, "size": TEXT},
            "bordercolor": palette.muted,
        },
        "xaxis": axis,
        "yaxis": deepcopy(axis),
        "annotationdefaults": {"showarrow": False},
    }
    return {"layout": layout}


def plot(
    palette: Palette, traces: Iterable[Trace], height: int, margin: tuple[int, int, int, int], **layout: Any
) -> go.Figure:
    """A figure in a theme.

    Args:
        height: px.
        margin: px at the left, right, top and bottom.
        layout: what else Plotly's layout has: axes, notes, shapes, a legend.
    """
    # A figure's data never change under the same revision. Said so, a browser draws it once: Streamlit hands every new
    # figure to Plotly twice, and Plotly takes other lists for other data. (Arrays of numpy it takes for such anyway.)
    own = {"height": height, "margin": dict(zip("lrtb", margin, strict=True)), "datarevision": 1}
    return go.Figure(
        {"data": list(traces), "layout": {"template": template(palette), **own, **layout}}, _validate=False
    )


def axis(title: str = "", **settings: Any) -> dict[str, Any]:
    """An axis with a title."""
    return {"title": {"text": title}, **settings} if title else settings


def panels(
    shares: Sequence[float], between: float, below: dict[str, Any], sides: Sequence[dict[str, Any]], **across: Any
) -> dict[str, Any]:
    """The axes of panels below each other that are moved together.

    Args:
        shares: of the height, from the top; their sum is 1.
        between: share of the height between two panels.
        below: the horizontal axis of the lowest one; `across` is what all have.
        sides: the vertical axes, from the top.
    """
    axes, top, room = {}, 1.0, 1 - between * (len(shares) - 1)
    for index, (share, side) in enumerate(zip(shares, sides, strict=True), 1):
        number, last = str(index) if index > 1 else "", index == len(shares)
        linked = below if last else {"matches": f"x{len(shares)}", "showticklabels": False}
        axes[f"xaxis{number}"] = {**across, **linked, "anchor": f"y{number}"}
        axes[f"yaxis{number}"] = {**side, "anchor": f"x{number}", "domain": [max(top - share * room, 0.0), top]}
        top -= share * room + between
    return axes


def axis_of_names(palette: Palette, **settings: Any) -> dict[str, Any]:
    """An axis of names: no grid and no line, and lettering that is read first."""
    return {**BARE, "showline": False, "tickfont": {"color": palette.ink}, **settings}


def rows(palette: Palette, **settings: Any) -> dict[str, Any]:
    """The vertical axis of a figure with one row per network."""
    return axis_of_names(palette, **{"autorange": "reversed", "ticklabelstandoff": 4, **settings})


def class_axis(title: str, classes: Sequence[str], palette: Palette) -> tuple[int, dict[str, Any]]:
    """The axis of classes above a heat map, and px for it; long names stand, so that a narrow column cannot cut them."""
    upright = max(map(len, classes), default=0) > 3
    turned = {"side": "top", "tickangle": -90 if upright else 0}
    return (room(classes) if upright else 30) + 20, axis_of_names(palette, title={"text": title}, **turned)


def room(words: Sequence[str]) -> int:
    """Pixels for row names; Plotly's own estimate cuts the longest one off."""
    return 20 + round(7.2 * max(len(name.replace("<b>", "").replace("</b>", "")) for name in words))


def note(text: str, x: Any, y: Any, colour: str | None = None, **settings: Any) -> dict[str, Any]:
    """Words at a place."""
    return {"text": text, "x": x, "y": y, **({"font": {"color": colour}} if colour else {}), **settings}


def edge(colour: Any, width: Any = 1, dash: str = "") -> dict[str, Any]:
    """Plotly's `line`."""
    return {"color": colour, "width": width, **({"dash": dash} if dash else {})}


def scatter(x: Any, y: Any, mode: str, **settings: Any) -> Trace:
    """Marks, lines or words; what has a name stands in the legend."""
    return {"type": "scatter", "x": x, "y": y, "mode": mode, "showlegend": "name" in settings, **settings}


def line(x: Any, y: Any, colour: str, width: float = 2, dash: str = "", **settings: Any) -> Trace:
    """A line that says nothing when pointed at, unless `settings` say otherwise."""
    hover = {} if {"hovertemplate", "hovertext"} & set(settings) else {"hoverinfo": "skip"}
    return scatter(x, y, "lines", **{"line": edge(colour, width, dash), **hover, **settings})


def diagonal(ends: list[float], palette: Palette) -> Trace:
    """Where both axes have the same value."""
    return line(ends, ends, palette.muted, 1, "dot")


def lettering(x: Any, y: Any, text: Any, **settings: Any) -> Trace:
    """Words beside or on marks, which may stand over the axes' ends."""
    return scatter(x, y, "text", text=text, hoverinfo="skip", cliponaxis=False, **settings)


def targets(x: Any, y: Any, size: int, **settings: Any) -> Trace:
    """See-through squares that can be pointed at and clicked where what is seen cannot."""
    unseen = {"marker": {"opacity": 0}}
    marker = {"symbol": "square", "size": size, "color": NOTHING, "line": {"width": 0}}
    return scatter(x, y, "markers", marker=marker, selected=unseen, unselected=unseen, **settings)


def bars(x: Any, y: Any, **settings: Any) -> Trace:
    """Bars; what has a name stands in the legend."""
    return {"type": "bar", "x": x, "y": y, "showlegend": "name" in settings, **settings}


def cells(x: Any, y: Any, z: Any, colours: tuple[str, str], most: float, gap: int, **settings: Any) -> Trace:
    """A heat map from 0, in the first colour, to the most, in the second.

    Args:
        gap: px between two cells.
    """
    shades = {"colorscale": [[0, colours[0]], [1, colours[1]]], "zmin": 0, "zmax": most, "showscale": False}
    return {
        "type": "heatmap",
        "x": x,
        "y": y,
        "z": z,
        **shades,
        "xgap": gap,
        "ygap": gap,
        "hoverongaps": False,
        **settings,
    }


def colour_key(values: Sequence[float], words: Sequence[str], palette: Palette) -> dict[str, Any]:
    """The colour bar of contours with words at some of its values."""
    font = {"size": TEXT, "color": palette.muted}
    return {"tickvals": values, "ticktext": words, "thickness": 12, "outlinewidth": 0, "tickfont": font}


def hatched(palette: Palette, colour: str | list[str], pattern: str | list[str]) -> dict[str, Any]:
    """The marker of bars, one for all or one for each, that colour and pattern tell apart; "" is no pattern."""
    hatch = {"shape": pattern, "fillmode": "overlay", "fgcolor": palette.outline, "size": 6, "solidity": 0.3}
    return {"color": colour, "line": edge(palette.outline), "pattern": hatch}


def across_paper(y: float, line: dict[str, Any]) -> dict[str, Any]:
    """A horizontal line from one end to the other."""
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}


def up_paper(x: float, line: dict[str, Any], yref: str = "paper") -> dict[str, Any]:
    """A vertical line from the foot to the top."""
    return {"type": "line", "yref": yref, "y0": 0, "y1": 1, "x0": x, "x1": x, "line": line}
