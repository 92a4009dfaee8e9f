"""Grouping against approximation error, one mark per level."""

from typing import Any

import numpy as np

from .drawing import axis, diagonal, drawn, mark, scatter
from .palette import Palette
from .picture import Picture
from .placing import Box, placed

#: On the narrowest page, in px: width and height of the axes, a mark's radius, a digit, a line.
AXES, RADIUS, DIGIT, LINE = (255, 270), 5.5, 8, 13
#: Places for a number around its mark by Plotly's names, in order of preference; right and up are 1.
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
    """Grouping error against approximation error, one mark per level, with the line where both are equal.

    Each mark has its level's number where it covers no other mark or number; in a crowd, the smallest errors have none.
    """
    x, y = 100 * table["grouping share"], 100 * table["approximation share"]
    top = max(float(max(x.max(), y.max())) * 1.18, 1e-6)
    positions = number_positions(x.to_numpy() / top, y.to_numpy() / top)
    levels = [index == chosen for index in range(len(table))]
    marks = scatter(
        x,
        y,
        "markers+text",
        "%{customdata[0]}<br>grouping %{x:.2f} %<br>approximation %{y:.2f} %",
        text=[str(index + 1) if position else "" for index, position in enumerate(positions)],
        textposition=[position or "top center" for position in positions],
        cliponaxis=False,
        customdata=table[["level"]].to_numpy().tolist(),
        marker=mark(
            "circle",
            11,
            [palette.accent if is_chosen else palette.grey for is_chosen in levels],
            palette.ink,
            [2 if is_chosen else 1 for is_chosen in levels],
        ),
    )
    below, many = int((x >= y).sum()), positions.count(None)
    finding = f"Grouping loses more than approximation in {below} of {len(table)} levels (right of the dotted line)."
    if many:
        finding += f" {many} small one{' has' if many == 1 else 's have'} no room for a number: point at the mark."
    span = [-0.02 * top, top]
    return drawn(
        palette,
        [diagonal([0, top], palette), marks],
        330,
        "Scatter plot of grouping against approximation error by level",
        finding,
        margin=(4, 12, 12, 46),
        xaxis=axis("grouping error, % of energy", range=span, rangemode="tozero"),
        yaxis=axis("approximation error, %", range=span, automargin=True),
    )


def number_positions(x: np.ndarray, y: np.ndarray) -> list[str | None]:
    """The place of each mark's number, so that none covers another or a mark; None if there is no room.

    Args:
        x, y: (levels,) shares of the axes, 0 to 1. The largest errors choose first.
    """
    width, height = AXES
    middles = np.column_stack([x * width, y * height]).tolist()
    marks = [(across - RADIUS, up - RADIUS, across + RADIUS, up + RADIUS) for across, up in middles]
    choices = [
        {position: number_box(across, up, len(str(index)), position) for position in AROUND}
        for index, (across, up) in enumerate(middles, 1)
    ]
    frame = (0, -LINE / 2, width, np.inf)  # the axis is a little below zero
    return placed(marks, choices, frame, np.argsort(-(x + y), kind="stable").tolist())


def number_box(across: float, up: float, digits: int, position: str) -> Box:
    """Left, bottom, right and top, in pixels, of a number at a mark."""
    right, above = AROUND[position]
    x = across + right * (RADIUS + digits * DIGIT / 2)
    y = up + above * (RADIUS + LINE / 2)
    return x - digits * DIGIT / 2, y - LINE / 2, x + digits * DIGIT / 2, y + LINE / 2
