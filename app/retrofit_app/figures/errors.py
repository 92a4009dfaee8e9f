"""Grouping against approximation error, one mark a level."""

from typing import Any

import numpy as np

from .drawing import axis, diagonal, edge, plot, scatter
from .palette import Palette
from .picture import Picture

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


def errors_scatter(table: Any, palette: Palette, chosen: int | None = None) -> Picture:
    """Grouping error against approximation error, one mark a level, with the line where both are equal.

    Each mark has its level's number beside it, where no other mark or number is; in a crowd, the smallest errors have none.
    """
    x, y = 100 * table["grouping share"], 100 * table["approximation share"]
    top = max(float(max(x.max(), y.max())) * 1.18, 1e-6)
    positions = number_positions(x.to_numpy() / top, y.to_numpy() / top)
    levels = [index == chosen for index in range(len(table))]
    marks = scatter(
        x.tolist(),
        y.tolist(),
        "markers+text",
        text=[str(index + 1) if position else "" for index, position in enumerate(positions)],
        textposition=[position or "top center" for position in positions],
        cliponaxis=False,
        customdata=table[["level"]].to_numpy().tolist(),
        marker={
            "size": 11,
            "color": [palette.accent if is_chosen else palette.grey for is_chosen in levels],
            "line": edge(palette.ink, [2 if is_chosen else 1 for is_chosen in levels]),
        },
        hovertemplate="%{customdata[0]}<br>grouping %{x:.2f} %<br>approximation %{y:.2f} %<extra></extra>",
    )
    span = [-0.02 * top, top]
    figure = plot(
        palette,
        [diagonal([0, top], palette), marks],
        330,
        (4, 12, 12, 44),
        xaxis=axis("grouping error, % of energy", range=span, rangemode="tozero"),
        yaxis=axis("approximation error, %", range=span, automargin=True),
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
