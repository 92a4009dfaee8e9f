"""What all figures are made of: one Plotly template for each theme, and the few kinds of traces, axes and notes.

Everything is a plain dictionary: Plotly's own check of every entry of every list would take fifty times as long as the rest
for a thousand marks with a colour and a shape each.

What a mark says when it is pointed at is its `tip`: a text with Plotly's placeholders, a list with a text for each mark, or
None for nothing.
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
Ends = tuple[float, float]
NOTHING = "rgba(0,0,0,0)"
#: The place of a legend: in a row above the axes, as by default, or below everything, an entry a line.
ABOVE = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": NOTHING}
BELOW = {"orientation": "v", "y": 0, "yref": "container", "yanchor": "bottom"}
#: An axis without a grid, whose numbers or names are all there is of it.
BARE = {"showgrid": False, "ticks": ""}
#: Where words stand above the axes, and above their left end.
TOP = {"yref": "paper", "yanchor": "bottom"}
HEAD = {"xref": "paper", "xanchor": "left", **TOP}
CELL = 13  # px, the lettering of cells


@cache
def template(palette: Palette) -> dict[str, Any]:
    """Lettering, colours, axes, legend, margins, hover labels and marks of a theme, for Plotly's `layout.template`."""
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
    marks = {"marker": {"opacity": 1}}  # marks of different sizes would be pale
    return {"layout": layout, "data": {"scatter": [marks]}}


def drawn(
    palette: Palette,
    traces: Iterable[Trace],
    height: int,
    what: str,
    finding: str = "",
    *,
    caption: str | None = None,
    key: str = "",
    margin: tuple[int, int, int, int] = (4, 8, 10, 46),
    **layout: Any,
) -> Picture:
    """A figure in a theme, with its words.

    Args:
        height: px.
        what: the figure is, and
        finding: what it shows: together they are its alternative text, and the latter alone its caption, if none is given.
        key: a legend as HTML.
        margin: px at the left, right, top and bottom; where a legend stands above, there is room for it anyway.
        layout: what else Plotly's layout has: axes, notes, shapes, a legend.
    """
    data = list(traces)
    left, right, top, bottom = margin
    above = 34 if "legend" not in layout and any(trace.get("showlegend") for trace in data) else 0
    # A figure's data never change under the same revision. Said so, a browser draws it once: Streamlit hands every new
    # figure to Plotly twice, and Plotly takes other lists for other data. (Arrays of numpy it takes for such anyway.)
    whole = {
        "template": template(palette),
        "height": height,
        "margin": {"l": left, "r": right, "t": max(top, above), "b": bottom},
        "datarevision": 1,
        **layout,
    }
    figure = go.Figure({"data": data, "layout": whole}, _validate=False)
    return Picture(figure, f"{what}. {finding}".strip(), finding if caption is None else caption, key)


# --- axes -----------------------------------------------------------------------------------------


def axis(title: str = "", **settings: Any) -> dict[str, Any]:
    """An axis with a title."""
    return {"title": {"text": title}, **settings} if title else settings


def named(palette: Palette, words: Sequence[str] | None = None, **settings: Any) -> dict[str, Any]:
    """An axis of names, at 0, 1, ... if there are `words`: no grid and no line, and lettering that is read first."""
    ticks = {} if words is None else {"tickvals": list(range(len(words))), "ticktext": list(words)}
    return {**BARE, "showline": False, "tickfont": {"color": palette.ink}, **ticks, **settings}


def rows(palette: Palette, words: Sequence[str] | None = None, **settings: Any) -> dict[str, Any]:
    """The vertical axis of a figure with one row per network, the first on top."""
    return named(palette, words, **{"autorange": "reversed", "ticklabelstandoff": 4, **settings})


def class_axis(title: str, classes: Sequence[str], palette: Palette) -> tuple[int, dict[str, Any]]:
    """The axis of classes above a heat map, and px for it; long names stand, so that a narrow column cannot cut them."""
    upright = max(map(len, classes), default=0) > 3
    turned = {"side": "top", "tickangle": -90 if upright else 0}
    return (room(classes) if upright else 30) + 20, named(palette, classes, title={"text": title}, **turned)


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
    axes, top, height = {}, 1.0, 1 - between * (len(shares) - 1)
    for index, (share, side) in enumerate(zip(shares, sides, strict=True), 1):
        number, last = str(index) if index > 1 else "", index == len(shares)
        linked = below if last else {"matches": f"x{len(shares)}", "showticklabels": False}
        axes[f"xaxis{number}"] = {**across, **linked, "anchor": f"y{number}"}
        axes[f"yaxis{number}"] = {**side, "anchor": f"x{number}", "domain": [max(top - share * height, 0.0), top]}
        top -= share * height + between
    return axes


def log_ticks(low: float, high: float, most: int = 6, unit: str = "") -> dict[str, Any]:
    """Where a logarithmic axis has numbers, all in one size: Plotly's own between powers of ten are too small to read.

    Args:
        low, high: powers of ten at the axis' ends.
        most: so many numbers at most, unless powers of ten alone are more.
    """
    powers = range(int(np.floor(low)), int(np.ceil(high)) + 1)
    for digits in ((1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
        values = [digit * 10.0**power for power in powers for digit in digits]
        values = [value for value in values if low <= np.log10(value) <= high]
        if len(values) <= most:
            break
    return {"tickvals": values, "ticktext": [f"{value:g}{unit}" for value in values]}


def room(words: Sequence[str]) -> int:
    """Pixels for row names; Plotly's own estimate cuts the longest one off."""
    return 20 + round(7.2 * max(len(name.replace("<b>", "").replace("</b>", "")) for name in words))


def padded(values: Any, share: float, least: float = 1e-9) -> list[float]:
    """The ends of an axis that reaches by a share of their span beyond some values."""
    low, high = float(np.min(values)), float(np.max(values))
    beyond = share * max(high - low, least)
    return [low - beyond, high + beyond]


# --- marks, lines and words -----------------------------------------------------------------------


def edge(colour: Any, width: Any = 1, dash: str = "") -> dict[str, Any]:
    """Plotly's `line`."""
    return {"color": colour, "width": width, **({"dash": dash} if dash else {})}


def mark(symbol: Any, size: Any, colour: Any, outline: Any = NOTHING, width: Any = 1) -> dict[str, Any]:
    """Plotly's `marker`: each of its properties for all marks, or a list with one for each."""
    return {"symbol": symbol, "size": size, "color": colour, "line": edge(outline, width)}


def scatter(x: Any, y: Any, mode: str, tip: Tip = None, **settings: Any) -> Trace:
    """Marks, lines or words; what has a name stands in the legend."""
    return _trace("scatter", x, y, tip, mode=mode, **settings)


def line(x: Any, y: Any, colour: str, width: float = 2, dash: str = "", tip: Tip = None, **settings: Any) -> Trace:
    """A line."""
    return scatter(x, y, "lines", tip, line=edge(colour, width, dash), **settings)


def diagonal(ends: Sequence[float], palette: Palette) -> Trace:
    """Where both axes have the same value."""
    return line(list(ends), list(ends), palette.muted, 1, "dot")


def lettering(x: Any, y: Any, text: Any, **settings: Any) -> Trace:
    """Words beside or on marks, which may stand over the axes' ends."""
    return scatter(x, y, "text", text=text, cliponaxis=False, **settings)


def targets(x: Any, y: Any, size: int, tip: Tip, **settings: Any) -> Trace:
    """See-through squares that can be pointed at and clicked where what is seen cannot."""
    unseen = {"marker": {"opacity": 0}}
    marker = mark("square", size, NOTHING, width=0)
    return scatter(x, y, "markers", tip, marker=marker, selected=unseen, unselected=unseen, **settings)


def bars(x: Any, y: Any, tip: Tip = None, **settings: Any) -> Trace:
    """Bars; what has a name stands in the legend."""
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


def spread(array: Any, colour: str, width: int = 4, **settings: Any) -> dict[str, Any]:
    """Intervals or deviations around marks, Plotly's `error_x`."""
    return {"array": list(array), "color": colour, "thickness": 1.5, "width": width, **settings}


def hatched(palette: Palette, colour: Any, pattern: Any) -> dict[str, Any]:
    """The marker of bars, one for all or one for each, that colour and pattern tell apart; "" is no pattern."""
    hatch = {"shape": pattern, "fillmode": "overlay", "fgcolor": palette.outline, "size": 6, "solidity": 0.3}
    return {"color": colour, "line": edge(palette.outline), "pattern": hatch}


def note(text: str, x: Any, y: Any, colour: str | None = None, **settings: Any) -> dict[str, Any]:
    """Words at a place."""
    return {"text": text, "x": x, "y": y, **({"font": {"color": colour}} if colour else {}), **settings}


def across_paper(y: float, line: dict[str, Any]) -> dict[str, Any]:
    """A horizontal line from one end to the other."""
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}


def up_paper(x: float, line: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """A vertical line from the foot to the top."""
    return {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": x, "x1": x, "line": line, **settings}


# --- tables of cells ------------------------------------------------------------------------------


def cells(
    z: Any, colours: tuple[str, str], most: float, tips: Sequence[Sequence[str]], gap: int = 2, **settings: Any
) -> Trace:
    """A heat map from 0, in the first colour, to the most, in the second; NaN is an empty cell.

    Args:
        z: (rows, columns), at 0, 1, ... from the top and from the left.
        tips: what each cell says when it is pointed at.
        gap: px between two cells.
    """
    rows = z.tolist() if hasattr(z, "tolist") else z
    places = {"x": list(range(len(rows[0]))), "y": list(range(len(rows))), "z": rows}
    shades = {"colorscale": [[0, colours[0]], [1, colours[1]]], "zmin": 0, "zmax": most, "showscale": False}
    gaps = {"xgap": gap, "ygap": gap, "hoverongaps": False}
    return {"type": "heatmap", **places, **shades, **gaps, **_says(tips), **settings}


def cell_words(words: Sequence[Sequence[str]], inks: Sequence[Sequence[str]], size: int = CELL) -> Trace:
    """What is written on the cells of a heat map.

    Its own lettering would be one grey for light cells and one for dark ones, hard to read on those between.
    """
    columns, lines = range(len(words[0])), range(len(words))
    font = {"size": size, "color": [ink for row in inks for ink in row]}
    text = [word for row in words for word in row]
    return lettering([x for _ in lines for x in columns], [y for y in lines for _ in columns], text, textfont=font)


def inks(shares: Any, colours: tuple[str, str], palette: Palette) -> list[list[str]]:
    """Lettering that can be read on cells of these shares, 0 to 1, of the way from one colour to the other."""
    return [
        [palette.ink if share is None or np.isnan(share) else mixed(*colours, float(share))[1] for share in row]
        for row in shares
    ]


def colour_key(values: Sequence[float], words: Sequence[str], palette: Palette) -> dict[str, Any]:
    """The colour bar of contours with words at some of its values."""
    font = {"size": TEXT, "color": palette.muted}
    return {"tickvals": values, "ticktext": words, "thickness": 12, "outlinewidth": 0, "tickfont": font}
