"""The building blocks of all figures: one Plotly template per theme, and a few kinds of traces, axes and notes.

Everything is a plain dictionary: for a thousand marks with their own colours and shapes, Plotly's validation would take
fifty times as long as the rest.

A mark's tooltip is its `tip`: a text with Plotly's placeholders, a list with one text per mark, or None.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import plotly.graph_objects as go

from .palette import FONT, TEXT, Palette, mixed
from .picture import Picture

Trace = dict[str, Any]
Tip = str | Sequence[Any] | None
NOTHING = "rgba(0,0,0,0)"
#: Where a legend is: in a row above the axes, the default, or below everything, one entry per line.
ABOVE = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": NOTHING}
BELOW = {"orientation": "v", "y": 0, "yref": "container", "yanchor": "bottom"}
#: An axis without grid and ticks: only its labels.
BARE = {"showgrid": False, "ticks": ""}
#: Text above the axes, and above their left end.
TOP = {"yref": "paper", "yanchor": "bottom"}
HEAD = {"xref": "paper", "xanchor": "left", **TOP}
CELL, TICKS = 13, 6  # px, text in cells; most numbers on a logarithmic axis, unless powers of ten alone are more


@cache
def template(palette: Palette) -> dict[str, Any]:
    """A theme's fonts, colours, axes, legend, hover labels and marks, for Plotly's `layout.template`."""
    axis = {
        "gridcolor": palette.line,
        "zeroline": False,
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
        "legend": ABOVE,
        "xaxis": axis,
        "yaxis": deepcopy(axis),
        "annotationdefaults": {"showarrow": False},
    }
    marks = {"marker": {"opacity": 1}}  # Plotly makes marks of different sizes pale
    return {"layout": layout, "data": {"scatter": [marks]}}


def picture_of(
    palette: Palette,
    traces: Iterable[Trace],
    height: int,
    what: str,
    finding: str = "",
    *,
    caption: str | None = None,
    key: str = "",
    title: str = "",
    margin: tuple[int, int, int, int] = (4, 8, 10, 46),
    **layout: Any,
) -> Picture:
    """A figure in a theme, with its texts.

    Args:
        height: px.
        what: the kind of figure.
        finding: what it shows; `what` and `finding` form the alternative text, `finding` alone the default caption.
        key: a legend as HTML.
        title: for a notebook (default: the beginning of `what`).
        margin: px at the left, right, top and bottom; a legend above gets its own room.
        layout: further entries of Plotly's layout: axes, notes, shapes, a legend.
    """
    data = list(traces)
    left, right, top, bottom = margin
    above = 34 if "legend" not in layout and any(trace.get("showlegend") for trace in data) else 0
    # A constant revision makes browsers draw a figure once: Streamlit hands every new figure to Plotly twice, and Plotly
    # treats new lists as new data. (It does so for numpy arrays in any case.)
    whole = {
        "template": template(palette),
        "height": height,
        "margin": {"l": left, "r": right, "t": max(top, above), "b": bottom},
        "datarevision": 1,
        **layout,
    }
    figure = go.Figure({"data": data, "layout": whole}, _validate=False)
    return Picture(
        figure,
        f"{what}. {finding}".strip(),
        finding if caption is None else caption,
        key,
        title or what.split(": ")[0].split(". ")[0],
    )


def faceted(figure: go.Figure, palette: Palette, height: int, **margin: int) -> None:
    """Give a figure of plotly.express, with panels and a legend, the looks of the others."""
    figure.update_layout(
        template=go.layout.Template(template(palette)),
        height=height,
        margin=margin,
        legend={**BELOW, "orientation": "h", "xref": "container", "title": ""},
    )


# --- axes -----------------------------------------------------------------------------------------


def axis(title: str = "", **settings: Any) -> dict[str, Any]:
    """An axis with a title."""
    return {"title": {"text": title}, **settings} if title else settings


def name_axis(palette: Palette, words: Sequence[str] | None = None, **settings: Any) -> dict[str, Any]:
    """An axis of names, at 0, 1, ... if `words` are given: no grid, no line, dark text."""
    ticks = {} if words is None else {"tickvals": list(range(len(words))), "ticktext": list(words)}
    return {**BARE, "showline": False, "tickfont": {"color": palette.ink}, **ticks, **settings}


def rows(palette: Palette, words: Sequence[str] | None = None, **settings: Any) -> dict[str, Any]:
    """The vertical axis for one row per network, the first on top."""
    return name_axis(palette, words, **{"autorange": "reversed", "ticklabelstandoff": 4, **settings})


def panels(
    shares: Sequence[float], between: float, below: dict[str, Any], sides: Sequence[dict[str, Any]], **across: Any
) -> dict[str, Any]:
    """The axes of stacked panels that move together.

    Args:
        shares: of the height, from the top; they sum to 1.
        between: share of the height between two panels.
        below: settings of the lowest horizontal axis; all axes share `across`.
        sides: the vertical axes, from the top.
    """
    axes, top, height = {}, 1.0, 1 - between * (len(shares) - 1)
    for index, (share, side) in enumerate(zip(shares, sides, strict=True), 1):
        number, last = str(index) if index > 1 else "", index == len(shares)
        linked = below if last else {"matches": f"x{len(shares)}", "showticklabels": False}
        axes[f"xaxis{number}"] = {**across, **linked, "anchor": f"y{number}"}
        axes[f"yaxis{number}"] = {**side, "anchor": f"x{number}", "domain": [max(top - share * height, 0.0), top]}
        top -= share * height + between
    return axes


def log_ticks(low: float, high: float, unit: str = "") -> dict[str, Any]:
    """Ticks of a logarithmic axis, all in one size: Plotly's own between powers of ten are too small to read.

    Args:
        low, high: powers of ten at the axis' ends.
    """
    powers = range(int(np.floor(low)), int(np.ceil(high)) + 1)
    for digits in ((1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
        values = [digit * 10.0**power for power in powers for digit in digits]
        values = [value for value in values if low <= np.log10(value) <= high]
        if len(values) <= TICKS:
            break
    return {"tickvals": values, "ticktext": [f"{value:g}{unit}" for value in values]}


def room(words: Sequence[str]) -> int:
    """Pixels for row names; Plotly's own estimate cuts off the longest."""
    return 20 + round(7.2 * max(len(name.replace("<b>", "").replace("</b>", "")) for name in words))


# --- marks, lines and text ------------------------------------------------------------------------


def edge(colour: Any, width: Any = 1, dash: str = "") -> dict[str, Any]:
    """Plotly's `line`."""
    return {"color": colour, "width": width, **({"dash": dash} if dash else {})}


def mark(symbol: Any, size: Any, colour: Any, outline: Any = NOTHING, width: Any = 1) -> dict[str, Any]:
    """Plotly's `marker`: each property is for all marks, or a list with one per mark."""
    return {"symbol": symbol, "size": size, "color": colour, "line": edge(outline, width)}


def scatter(x: Any, y: Any, mode: str, tip: Tip = None, **settings: Any) -> Trace:
    """Marks, lines or text; a `name` puts them in the legend."""
    return _trace("scatter", x, y, tip, mode=mode, **settings)


def line(x: Any, y: Any, colour: str, width: float = 2, dash: str = "", tip: Tip = None, **settings: Any) -> Trace:
    """A line."""
    return scatter(x, y, "lines", tip, line=edge(colour, width, dash), **settings)


def lettering(x: Any, y: Any, text: Any, **settings: Any) -> Trace:
    """Text beside or on marks; it may extend beyond the axes."""
    return scatter(x, y, "text", text=text, cliponaxis=False, **settings)


def targets(x: Any, y: Any, size: int, tip: Tip, **settings: Any) -> Trace:
    """Transparent squares to hover over and click where the visible trace allows neither."""
    unseen = {"marker": {"opacity": 0}}
    marker = mark("square", size, NOTHING, width=0)
    return scatter(x, y, "markers", tip, marker=marker, selected=unseen, unselected=unseen, **settings)


def bars(x: Any, y: Any, tip: Tip = None, **settings: Any) -> Trace:
    """Bars; a `name` puts them in the legend."""
    return _trace("bar", x, y, tip, **settings)


def _trace(kind: str, x: Any, y: Any, tip: Tip, **settings: Any) -> Trace:
    places = {side: values.tolist() if hasattr(values, "tolist") else values for side, values in (("x", x), ("y", y))}
    return {"type": kind, **places, "showlegend": "name" in settings, **_says(tip), **settings}


def _says(tip: Tip) -> dict[str, Any]:
    if tip is None:
        return {"hoverinfo": "skip"}
    if isinstance(tip, str):
        return {"hovertemplate": tip if "<extra>" in tip else f"{tip}<extra></extra>"}
    return {"hovertext": tip, "hoverinfo": "text"}


def error_bars(array: Any, colour: str, width: int = 4, **settings: Any) -> dict[str, Any]:
    """Intervals or deviations around marks, Plotly's `error_x`."""
    return {"array": list(array), "color": colour, "thickness": 1.5, "width": width, **settings}


def note(text: str, x: Any, y: Any, colour: str | None = None, **settings: Any) -> dict[str, Any]:
    """Text at a place."""
    return {"text": text, "x": x, "y": y, **({"font": {"color": colour}} if colour else {}), **settings}


def up_paper(x: float, line: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """A vertical line up the axes."""
    return {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": x, "x1": x, "line": line, **settings}


# --- tables of cells ------------------------------------------------------------------------------


def cells(
    z: Any, colours: tuple[str, str], most: float, tips: Sequence[Sequence[str]], gap: int = 2, **settings: Any
) -> Trace:
    """A heat map from 0 in the first colour to `most` in the second; NaN is an empty cell.

    Args:
        z: (rows, columns), at 0, 1, ... from the top and from the left.
        tips: each cell's tooltip.
        gap: px between two cells.
    """
    rows = z.tolist() if hasattr(z, "tolist") else z
    places = {"x": list(range(len(rows[0]))), "y": list(range(len(rows))), "z": rows}
    shades = {"colorscale": [[0, colours[0]], [1, colours[1]]], "zmin": 0, "zmax": most, "showscale": False}
    gaps = {"xgap": gap, "ygap": gap, "hoverongaps": False}
    return {"type": "heatmap", **places, **shades, **gaps, **_says(tips), **settings}


def cell_words(words: Sequence[Sequence[str]], inks: Sequence[Sequence[str]]) -> Trace:
    """Text on a heat map's cells; Plotly's own is hard to read on cells between light and dark."""
    columns, lines = range(len(words[0])), range(len(words))
    font = {"size": CELL, "color": [ink for row in inks for ink in row]}
    text = [word for row in words for word in row]
    return lettering([x for _ in lines for x in columns], [y for y in lines for _ in columns], text, textfont=font)


def inks(shares: Any, colours: tuple[str, str], palette: Palette) -> list[list[str]]:
    """Readable text colours on cells with these shares, 0 to 1, of the way from one colour to the other."""
    return [
        [palette.ink if share is None or np.isnan(share) else mixed(*colours, float(share))[1] for share in row]
        for row in shares
    ]
