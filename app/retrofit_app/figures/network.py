"""Where knowledge is lost, as a drawn network: the parents flow into the fused one, whose levels are blocks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from .diagnosis import diagnosis, fitted
from .palette import TEXT, Palette, mixed
from .picture import Picture, axis, hatched, layout, letter, number, percent, titled, unchecked

#: Above so many levels blocks carry no numbers and axes skip names.
MANY = 16
#: Up to so many levels there is room, on a telephone, for the chosen one's name and for every decimal.
NAMED = 5
LEAST = 0.26  # of the tallest block, the height of the lowest: its number fits
PALEST = 10.0  # per cent: a largest error below this one does not have the full tint
BLOCK, SLICE = 0.72, 0.8  # widths of a block, and of a parent's slice, in levels and in shares of the room for one
PARENTS, ROOM = -1.02, 0.92  # where the parents stand, and their width, in levels: the first block is 0


def drawn_network(
    table: Any, accuracy: Sequence[float], palette: Palette, chosen: int | None = None, images: int = 0
) -> Picture:
    """The parents on the left flow into the fused network, one block a level: as high as it is wide, tinted by its error.

    The error stands in the block; hatched: more than half of it is approximation. Above runs the accuracy, from that of
    the ensemble, over the parents, to that after each level. An invisible mark over each block carries the level's number,
    for clicks.

    Args:
        table: `results.frame(levels)`.
        accuracy: of the ensemble, then after each level, in per cent; empty where it was not measured.
        chosen: the level with a frame.
        images: on which the accuracy was measured.
    """
    measured = len(accuracy) == len(table) + 1
    widths = [[int(width) for width in text.split("+")] for text in table["widths"]]
    tallest = max(max(map(max, widths)), int(table["fused"].max()))
    heights = [_height(width, tallest) for width in table["fused"]]
    traces = [
        *_flows(widths[0], heights, palette),
        *_parents(widths, tallest, palette),
        _blocks(table, heights, palette),
    ]
    if measured:
        traces += _accuracy(table, accuracy, palette)
    traces += _targets(table, accuracy)
    figure = unchecked(traces)
    _axes(figure, table, accuracy, palette, chosen)
    if chosen is not None:
        figure.add_shape(
            type="rect",
            xref="x",
            yref="paper",
            x0=chosen - 0.47,
            x1=chosen + 0.47,
            y0=0,
            y1=1,
            line={"color": palette.accent, "width": 2},
            fillcolor="rgba(0,0,0,0)",
        )
    finding = diagnosis(table, accuracy, images)
    errors = "grouping and approximation error" if fitted(table) else "grouping error"
    alt = f"The networks drawn with {errors} of {len(table)} levels as the tint of a block each" + (
        f", and a line of accuracy after each, from {number(accuracy[0])} (ensemble) to {number(accuracy[-1])} per cent"
        if measured
        else ""
    )
    return Picture(figure, f"{alt}. {finding}", finding)


def _height(width: int, tallest: int) -> float:
    """Of a block, 1 for the widest level: square roots, so that widths of 16 and of 512 can stand side by side."""
    return max(LEAST, (width / tallest) ** 0.5)


def _errors(table: Any) -> np.ndarray:
    """Of each level, in per cent of its neurons' energy."""
    return 100 * (table["grouping share"] + table["approximation share"]).to_numpy(dtype=float)


def _blocks(table: Any, heights: Sequence[float], palette: Palette) -> dict[str, Any]:
    errors = _errors(table)
    top = max(PALEST, float(errors.max()))
    tints, inks = zip(
        *[mixed(palette.paper, palette.grouping, 0.06 + 0.94 * error / top) for error in errors], strict=True
    )
    mostly = (
        (table["approximation share"] > table["grouping share"]).tolist() if fitted(table) else [False] * len(table)
    )
    return {
        "type": "bar",
        "x": list(range(len(table))),
        "y": list(heights),
        "base": [-height / 2 for height in heights],
        "width": BLOCK,
        "marker": {
            **hatched(palette, list(tints), ["/" if most else "" for most in mostly]),
            "line": {"color": palette.muted, "width": 1},
        },
        "text": [number(error, 0 if error >= 10 and len(table) > NAMED else 1) for error in errors]
        if len(table) <= MANY
        else None,
        "textposition": "inside",
        "insidetextanchor": "middle",
        "constraintext": "none",
        "textangle": 0,
        "textfont": {"size": TEXT, "color": list(inks)},
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _parents(widths: Sequence[Sequence[int]], tallest: int, palette: Palette) -> list[dict[str, Any]]:
    """Each parent as a row of slices, one a level, in its colour, with its letter."""
    parents, levels = len(widths[0]), len(widths)
    room = ROOM / levels
    traces: list[dict[str, Any]] = []
    for parent in range(parents):
        middle = _middle(parent, parents)
        heights = [_height(level[parent], tallest) * 0.8 / parents for level in widths]
        across = [PARENTS - ROOM / 2 + (level + 0.5) * room for level in range(levels)]
        traces.append(
            {
                "type": "bar",
                "x": across,
                "y": heights,
                "base": [middle - height / 2 for height in heights],
                "width": SLICE * room,
                "marker": {"color": palette.parent(parent), "line": {"width": 0}},
                "showlegend": False,
                "text": [""] * levels,
                "hovertext": f"network {letter(parent)}: {', '.join(str(level[parent]) for level in widths)} neurons",
                "hoverinfo": "text",
            }
        )
    traces.append(
        {
            "type": "scatter",
            "x": [PARENTS - ROOM / 2 - 0.06] * parents,
            "y": [_middle(parent, parents) for parent in range(parents)],
            "mode": "text",
            "text": [f"<b>{letter(parent)}</b>" for parent in range(parents)],
            "textposition": "middle left",
            "textfont": {"size": TEXT, "color": palette.ink},
            "showlegend": False,
            "hoverinfo": "skip",
            "cliponaxis": False,
        }
    )
    return traces


def _middle(parent: int, parents: int) -> float:
    """The height at which a parent stands: the first on top."""
    return (parents - 1 - 2 * parent) / (2 * parents)


def _flows(first: Sequence[int], heights: Sequence[float], palette: Palette) -> list[dict[str, Any]]:
    """Bands from each parent to the first block, and from block to block."""
    parents = len(first)
    bands = [
        (
            PARENTS + ROOM / 2,
            _middle(parent, parents),
            0.5 / parents,
            -BLOCK / 2,
            heights[0] * _middle(parent, parents),
            heights[0] / parents,
        )
        for parent in range(parents)
    ]
    bands += [
        (level + BLOCK / 2, 0.0, left, level + 1 - BLOCK / 2, 0.0, right)
        for level, (left, right) in enumerate(zip(heights, heights[1:], strict=False))
    ]
    x: list[float | None] = []
    y: list[float | None] = []
    ease = np.linspace(0, 1, 13)
    rise = ease * ease * (3 - 2 * ease)
    for start, from_middle, from_height, end, to_middle, to_height in bands:
        across = start + (end - start) * ease
        middle = from_middle + (to_middle - from_middle) * rise
        half = (from_height + (to_height - from_height) * rise) / 2
        x += [*across.tolist(), *across[::-1].tolist(), None]
        y += [*(middle + half).tolist(), *(middle - half)[::-1].tolist(), None]
    return [
        {
            "type": "scatter",
            "x": x,
            "y": y,
            "mode": "lines",
            "fill": "toself",
            "fillcolor": palette.line,
            "line": {"width": 0, "color": palette.line},
            "opacity": 0.6,
            "showlegend": False,
            "hoverinfo": "skip",
        }
    ]


def _accuracy(table: Any, accuracy: Sequence[float], palette: Palette) -> list[dict[str, Any]]:
    """The line over the blocks, which begins with the ensemble over the parents."""
    changes = np.diff(np.asarray(accuracy))
    worst, last = int(changes.argmin()) + 1, len(table)
    labelled = {0, worst, last} if last > MANY else set(range(last + 1))
    line = {
        "type": "scatter",
        "x": [PARENTS, *range(last)],
        "y": list(accuracy),
        "yaxis": "y2",
        "mode": "lines+markers+text",
        "text": [
            percent(value) if not index else number(value) if index in labelled else ""
            for index, value in enumerate(accuracy)
        ],
        "textposition": "top center",
        "textfont": {"color": palette.ink, "size": TEXT},
        "cliponaxis": False,
        "line": {"color": palette.ink, "width": 2},
        "marker": {
            "size": 8,
            "color": [palette.paper, *[palette.ink] * last],
            "line": {"color": palette.ink, "width": 2},
        },
        "hovertext": [
            f"all networks side by side: {percent(accuracy[0])}",
            *(
                f"level {index + 1}, {name}<br>accuracy if fusion stopped here: {percent(accuracy[index + 1])}"
                for index, name in enumerate(table["level"])
            ),
        ],
        "hoverinfo": "text",
        "showlegend": False,
    }
    word = {
        "type": "scatter",
        "x": [PARENTS],
        "y": [accuracy[0]],
        "yaxis": "y2",
        "mode": "markers+text",
        "marker": {"size": 26, "color": "rgba(0,0,0,0)", "line": {"width": 0}},  # it keeps the word off the line
        "text": ["ensemble"],
        "textposition": "bottom center",
        "textfont": {"color": palette.muted, "size": TEXT},
        "showlegend": False,
        "hoverinfo": "skip",
        "cliponaxis": False,
    }
    return [line, word] if last <= NAMED else [line]


def _targets(table: Any, accuracy: Sequence[float]) -> list[dict[str, Any]]:
    """Wide, tall, see-through squares: a click anywhere in a level's column counts. (Bars cannot be picked.)"""
    levels = len(table)
    invisible = {"marker": {"opacity": 0}}
    return [
        {
            "type": "scatter",
            "x": list(range(levels)),
            "y": [height] * levels,
            "mode": "markers",
            "showlegend": False,
            "cliponaxis": False,
            "customdata": [[index] for index in range(levels)],
            "text": _tips(table, accuracy),
            "hovertemplate": "%{text}<br>click: open this level<extra></extra>",
            "marker": {"symbol": "square", "size": 34, "color": "rgba(0,0,0,0)", "line": {"width": 0}},
            "selected": invisible,
            "unselected": invisible,
        }
        for height in (-0.38, 0.0, 0.38)
    ]


def _axes(figure: go.Figure, table: Any, accuracy: Sequence[float], palette: Palette, chosen: int | None) -> None:
    levels, measured = len(table), len(accuracy) == len(table) + 1
    shown = range(0, levels, 1 if levels <= MANY else 5)
    names = [
        f"<b>{index + 1} · {table['level'].iloc[index]}</b>" if index == chosen and levels <= NAMED else f"{index + 1}"
        for index in shown
    ]
    bare = {**axis(palette), "showgrid": False, "zeroline": False, "ticks": "", "showline": False}
    figure.update_layout(
        **layout(palette, height=176 if measured else 124),
        barmode="overlay",
        margin={"l": 24, "r": 6, "t": 4, "b": 24},
        clickmode="event+select",
    )
    figure.update_xaxes(
        **bare, range=[PARENTS - 0.62 - 0.02 * levels, levels - 0.5], tickvals=list(shown), ticktext=names, tickangle=0
    )
    top = 0.54 if measured else 1.0
    row = {**bare, "showticklabels": False}
    figure.update_yaxes(**row, range=[-0.53, 0.53], domain=[0, top], title=titled("error, %"))
    if measured:
        low, high = min(accuracy), max(accuracy)
        room = max(high - low, 1.0)
        figure.update_layout(
            yaxis2={
                **row,
                "domain": [top + 0.02, 1],
                "range": [low - 0.25 * room, high + 0.75 * room],
                "anchor": "x",
                "title": titled("accuracy"),
            }
        )


def _tips(table: Any, accuracy: Sequence[float]) -> list[str]:
    """What a level's column says when pointed at."""
    both = fitted(table)
    tips = [
        f"level {index + 1}, {name}<br>grouping {percent(100 * grouping)}"
        + (f", approximation {percent(100 * approximation)}" if both else "")
        for index, (name, grouping, approximation) in enumerate(
            zip(table["level"], table["grouping share"], table["approximation share"], strict=True)
        )
    ]
    if len(accuracy) == len(tips) + 1:
        tips = [
            f"{tip}<br>accuracy {percent(accuracy[index])} → {percent(accuracy[index + 1])}"
            for index, tip in enumerate(tips)
        ]
    return tips
