"""What is lost over the levels: the strip of all levels, and grouping against approximation."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from .diagnosis import diagnosis, fitted
from .palette import TEXT, Palette
from .picture import Picture, axis, hatched, layout, number, percent, titled

#: Above so many levels bars carry no numbers and axes skip names.
MANY = 16
#: Up to so many levels stand with their names under the strip.
NAMED = 5
#: The errors of all levels on the narrowest page: width and height of the axes, a mark's radius, a digit, a line, in px.
AXES, RADIUS, DIGIT, LINE = (255, 270), 5.5, 8, 13
#: Where a number may stand around its mark, as Plotly names it, in order of preference: right and up are 1.
AROUND = {
    "top center": (0, 1),
    "middle right": (1, 0),
    "middle left": (-1, 0),
    "bottom center": (0, -1),
    "top right": (1, 1),
    "top left": (-1, 1),
    "bottom right": (1, -1),
    "bottom left": (-1, -1),
}


def knowledge_strip(
    table: Any, accuracy: Sequence[float], palette: Palette, chosen: int | None = None, images: int = 0
) -> Picture:
    """Where knowledge is lost: errors of all levels as bars, accuracy after each as a line above them.

    An invisible mark over each bar carries the level's number, for clicks; bars cannot be picked.

    Args:
        table: `results.frame(levels)`.
        accuracy: of the ensemble, then after each level, in per cent; empty where it was not measured.
        images: on which that was measured.
    """
    several = len(table) > NAMED  # numbers alone fit on a phone
    names = [f"{index + 1}" if several else f"{index + 1} · {name}" for index, name in enumerate(table["level"])]
    figure = go.Figure()
    total = _bars(figure, names, table, palette)
    top = max(float(total.max()), 1e-9)
    figure.add_scatter(
        x=names,
        y=total,
        mode="text",
        text=[number(value) for value in total] if len(names) <= MANY else None,
        textposition="top center",
        textfont={"color": palette.ink, "size": TEXT},
        showlegend=False,
        hoverinfo="skip",
        cliponaxis=False,
    )
    if len(accuracy) == len(names) + 1:
        after = list(accuracy[1:])
        drops = np.diff(np.asarray(accuracy))
        worst = int(drops.argmin())
        labelled = {0, worst, len(after) - 1} if len(after) > MANY else set(range(len(after)))
        figure.add_scatter(
            x=names,
            y=after,
            yaxis="y2",
            mode="lines+markers+text",
            name="accuracy",
            text=[number(value) if index in labelled else "" for index, value in enumerate(after)],
            textposition="bottom center",
            textfont={"color": palette.ink, "size": TEXT},
            cliponaxis=False,
            line={"color": palette.ink, "width": 2},
            marker={"size": 8, "color": palette.ink},
            customdata=table[["level"]],
            hovertemplate="level %{x}, %{customdata[0]}<br>accuracy if fusion stopped here: %{y:.1f} %<extra></extra>",
        )
        figure.add_hline(y=accuracy[0], yref="y2", line={"color": palette.muted, "width": 1, "dash": "dot"})
        figure.add_annotation(
            x=1,
            xref="paper",
            y=accuracy[0],
            yref="y2",
            text=f"ensemble {number(accuracy[0])}",
            showarrow=False,
            xanchor="right",
            yanchor="bottom",
            yshift=0,
            font={"color": palette.muted, "size": TEXT},
        )
    chosen_name = [] if chosen is None else [chosen]
    for index in chosen_name:
        figure.add_shape(
            type="rect",
            xref="x",
            yref="paper",
            x0=index - 0.44,
            x1=index + 0.44,
            y0=0,
            y1=1,
            line={"color": palette.accent, "width": 2},
            fillcolor="rgba(0,0,0,0)",
        )
    # Wide, tall, see-through squares: a click anywhere in a level's column counts.
    for height in (0.12, 0.5, 0.9):
        figure.add_scatter(
            x=names,
            y=[top * height] * len(names),
            mode="markers",
            showlegend=False,
            cliponaxis=False,
            customdata=[[index] for index in range(len(names))],
            text=_tips(table, accuracy),
            hovertemplate="%{text}<br>click: open this level<extra></extra>",
            marker={"symbol": "square", "size": 34, "color": "rgba(0,0,0,0)", "line": {"width": 0}},
            selected={"marker": {"opacity": 0}},
            unselected={"marker": {"opacity": 0}},
        )
    figure.update_layout(**layout(palette, height=206 if several else 190), barmode="stack", legend=_legend(palette))
    figure.update_layout(margin={"l": 4, "r": 4, "t": 26, "b": 42 if several else 26}, clickmode="event+select")
    figure.update_xaxes(type="category", **axis(palette), showgrid=False, tickangle=0)
    if chosen is not None and several:  # numbers alone do not say which layer it is
        labels = [
            f"{name}<br><b>{table['level'].iloc[chosen]}</b>" if index == chosen else name
            for index, name in enumerate(names)
        ]
        every = range(0, len(names), 1 if len(names) <= MANY else 5)
        shown = sorted({*every, chosen})
        figure.update_xaxes(tickvals=[names[index] for index in shown], ticktext=[labels[index] for index in shown])
    lower = 0.56 if len(accuracy) == len(names) + 1 else 1.0
    figure.update_yaxes(
        range=[0, top * 1.25], domain=[0, lower], ticksuffix=" %", automargin=True, nticks=4, **axis(palette)
    )
    if lower < 1:
        low, high = min(accuracy), max(accuracy)
        room = max(high - low, 1.0)
        figure.update_layout(
            yaxis2={
                "domain": [0.62, 1],
                "range": [low - 0.75 * room, high + 0.3 * room],
                "nticks": 3,
                "anchor": "x",
                "automargin": True,
                "ticksuffix": " %",
                **axis(palette),
                "showgrid": False,
                "showticklabels": False,
                "zeroline": False,
            }
        )
    finding = diagnosis(table, accuracy, images)
    errors = "grouping and approximation error" if fitted(table) else "grouping error"
    alt = f"Bars of {errors} over {len(names)} levels" + (
        f", and a line of accuracy after each, from {number(accuracy[0])} (ensemble) to {number(accuracy[-1])} per cent"
        if lower < 1
        else ""
    )
    return Picture(figure, f"{alt}. {finding}", finding)


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


def errors_scatter(table: Any, palette: Palette, chosen: int | None = None) -> Picture:
    """Grouping error against approximation error, one mark a level, with the line where both are equal.

    Each mark has its level's number beside it, where no other mark or number is; in a crowd, the smallest errors have none.
    """
    x, y = 100 * table["grouping share"], 100 * table["approximation share"]
    top = max(float(max(x.max(), y.max())) * 1.18, 1e-6)
    positions = number_positions(x.to_numpy() / top, y.to_numpy() / top)
    figure = go.Figure()
    figure.add_scatter(
        x=[0, top],
        y=[0, top],
        mode="lines",
        hoverinfo="skip",
        showlegend=False,
        line={"color": palette.muted, "width": 1, "dash": "dot"},
    )
    figure.add_scatter(
        x=x,
        y=y,
        mode="markers+text",
        text=[str(index + 1) if position else "" for index, position in enumerate(positions)],
        textposition=[position or "top center" for position in positions],
        textfont={"color": palette.ink, "size": TEXT},
        showlegend=False,
        cliponaxis=False,
        customdata=table[["level"]],
        marker={
            "size": 11,
            "color": [palette.accent if index == chosen else palette.grey for index in range(len(table))],
            "line": {"color": palette.ink, "width": [2 if index == chosen else 1 for index in range(len(table))]},
        },
        hovertemplate="%{customdata[0]}<br>grouping %{x:.2f} %<br>approximation %{y:.2f} %<extra></extra>",
    )
    figure.update_layout(**layout(palette, height=330), margin={"l": 4, "r": 12, "t": 12, "b": 44})
    figure.update_xaxes(
        title=titled("grouping error, % of energy"), range=[-0.02 * top, top], rangemode="tozero", **axis(palette)
    )
    figure.update_yaxes(
        title=titled("approximation error, %"), range=[-0.02 * top, top], automargin=True, **axis(palette)
    )
    below = int((x >= y).sum())
    finding = f"In {below} of {len(table)} levels grouping loses more than approximation (right of the dotted line)."
    if None in positions:
        many = positions.count(None)
        finding += f" {many} small one{' has' if many == 1 else 's have'} no room for a number: point there."
    return Picture(figure, f"Scatter plot of grouping against approximation error by level. {finding}", finding)


def number_positions(x: np.ndarray, y: np.ndarray) -> list[str | None]:
    """Where each mark's number stands, so that none lies on another number or on a mark; None where there is no room.

    Args:
        x, y: (levels,) shares of the axes, 0 to 1. The largest errors choose first.
    """
    width, height = AXES
    marks = np.column_stack([x * width, y * height])
    taken = [(across - RADIUS, up - RADIUS, across + RADIUS, up + RADIUS) for across, up in marks.tolist()]
    positions: list[str | None] = [None] * len(marks)
    for index in np.argsort(-(x + y), kind="stable").tolist():
        others = taken[:index] + taken[index + 1 :]
        for position in AROUND:
            across, up = marks[index].tolist()
            box = number_box(across, up, len(str(index + 1)), position)
            free = box[0] >= 0 and box[2] <= width and box[1] >= -LINE / 2  # the axis lies a little below zero
            if free and not any(_overlap(box, other) for other in others):
                positions[index] = position
                taken.append(box)
                break
    return positions


def number_box(across: float, up: float, digits: int, position: str) -> tuple[float, float, float, float]:
    """Left, bottom, right and top, in pixels, of a number at a mark."""
    right, above = AROUND[position]
    x = across + right * (RADIUS + digits * DIGIT / 2)
    y = up + above * (RADIUS + LINE / 2)
    return x - digits * DIGIT / 2, y - LINE / 2, x + digits * DIGIT / 2, y + LINE / 2


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _bars(figure: go.Figure, names: Sequence[str], table: Any, palette: Palette) -> Any:
    """Two stacked traces, one where no level was fitted; returns the sums in per cent."""
    parts = (
        ("grouping share", "grouping", palette.grouping, ""),
        ("approximation share", "approximation", palette.approximation, "/"),
    )
    for column, label, colour, pattern in parts if fitted(table) else parts[:1]:
        figure.add_bar(
            x=names,
            y=100 * table[column],
            name=label,
            width=0.62,
            customdata=table[["level"]],
            marker=hatched(palette, colour, pattern),
            hovertemplate="level %{x}, %{customdata[0]}<br>" + label + ": %{y:.2f} %<extra></extra>",
        )
    return 100 * (table["grouping share"] + table["approximation share"])


def _legend(palette: Palette) -> dict[str, Any]:
    return {
        "orientation": "h",
        "x": 0,
        "y": 1.02,
        "yanchor": "bottom",
        "traceorder": "normal",
        "font": {"size": TEXT, "color": palette.ink},
    }
