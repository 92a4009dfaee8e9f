"""The order of the methods in the paper and here."""

from collections.abc import Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go

from ..palette import TEXT, Palette
from ..picture import Picture, layout, number, room
from .rows import OURS, PARENT, ROW, is_repeated, mean


def rank_against_rank(column: Any, palette: Palette) -> Picture:
    """The order of the methods in the paper, at the left, and in ours, at the right; a line joins the same method.

    Args:
        column: a `ReproducedColumn` whose numbers are accuracies.
    Raises:
        ValueError: fewer than two methods have a number in both.
    """
    both = [
        line
        for line in column.block.lines
        if line.paper is not None
        and line.mean is not None
        and not line.row.startswith(PARENT)
        and not is_repeated(column, line)
    ]
    if len(both) < 2:
        raise ValueError(
            f"{column.table}, {column.name} has fewer than two methods with both numbers: there is no order."
        )
    left, right = _ranks(both, lambda line: line.paper.mean), _ranks(both, mean)
    figure = go.Figure()
    for line in both:
        ours = line.row.startswith(OURS)
        colour = palette.accent if ours else palette.grey
        figure.add_scatter(
            x=[0, 1],
            y=[left[line.row], right[line.row]],
            mode="lines+markers",
            line={"color": colour, "width": 3 if ours else 1.5},
            marker={"size": 8, "color": colour, "symbol": "circle" if ours else "square"},
            hovertemplate=f"{escape(line.row)}<br>paper: {number(line.paper.mean)} %, rank {left[line.row]}<br>"
            f"ours: {number(line.mean)} %, rank {right[line.row]}<extra></extra>",
            showlegend=False,
            cliponaxis=False,
        )
        for x, rank, value, anchor in ((0, left, line.paper.mean, "right"), (1, right, line.mean, "left")):
            figure.add_annotation(
                x=x,
                y=rank[line.row],
                text=f"{escape(line.row)} {number(value)}",
                xanchor=anchor,
                xshift=-10 if anchor == "right" else 10,
                showarrow=False,
                font={"size": TEXT, "color": palette.ink},
            )
    # The headings stand over the names, not over the ends of the lines: long names leave little room between them.
    for x, words, anchor, shift in ((0, "paper", "right", -10), (1, f"ours ({escape(column.badge)})", "left", 10)):
        figure.add_annotation(
            x=x,
            y=1,
            yref="paper",
            yanchor="bottom",
            text=words,
            xanchor=anchor,
            xshift=shift,
            showarrow=False,
            font={"size": TEXT, "color": palette.muted},
        )
    widest = room([f"{line.row} 00.0" for line in both])
    figure.update_layout(
        **layout(palette, height=60 + ROW * len(both)), margin={"l": widest, "r": widest, "t": 40, "b": 8}
    )
    figure.update_xaxes(visible=False, range=[-0.02, 1.02], fixedrange=True)
    figure.update_yaxes(visible=False, range=[len(both) + 0.6, 0.4], fixedrange=True)
    moved = max(both, key=lambda line: abs(left[line.row] - right[line.row]))
    correlation = column.block.ranked[1] if column.block.ranked else None
    finding = f"{len(both)} methods" + ("" if correlation is None else f", rank correlation {number(correlation, 2)}")
    steps = abs(left[moved.row] - right[moved.row])
    finding += (
        f"; {moved.row} moves most, by {steps} place{'' if steps == 1 else 's'}."
        if steps
        else "; the order is the same."
    )
    return Picture(
        figure, f"Two columns of methods in the order of their accuracy, joined by lines. {finding}", finding
    )


def _ranks(lines: Sequence[Any], value: Any) -> dict[str, int]:
    """Row -> its place, from 1."""
    return {line.row: rank for rank, line in enumerate(sorted(lines, key=lambda line: -value(line)), 1)}
