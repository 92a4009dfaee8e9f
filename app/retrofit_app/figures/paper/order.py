"""The order of the methods in the paper and here."""

from collections.abc import Sequence
from html import escape
from typing import Any

from ..drawing import edge, note, plot, room, scatter
from ..palette import Palette
from ..picture import Picture, number
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
    traces, notes = [], []
    sides = {"right": -10, "left": 10}
    for line in both:
        ours = line.row.startswith(OURS)
        colour = palette.accent if ours else palette.grey
        ranks = left[line.row], right[line.row]
        traces.append(
            scatter(
                [0, 1],
                list(ranks),
                "lines+markers",
                line=edge(colour, 3 if ours else 1.5),
                marker={"size": 8, "color": colour, "symbol": "circle" if ours else "square"},
                hovertemplate=f"{escape(line.row)}<br>paper: {number(line.paper.mean)} %, rank {ranks[0]}<br>"
                f"ours: {number(line.mean)} %, rank {ranks[1]}<extra></extra>",
                cliponaxis=False,
            )
        )
        ends = zip(ranks, (line.paper.mean, line.mean), sides.items(), strict=True)
        for x, (rank, value, (anchor, shift)) in enumerate(ends):
            notes.append(note(f"{escape(line.row)} {number(value)}", x, rank, xanchor=anchor, xshift=shift))
    # The headings stand over the names, not over the ends of the lines: long names leave little room between them.
    heads = zip(("paper", f"ours ({escape(column.badge)})"), sides.items(), strict=True)
    for x, (words, (anchor, shift)) in enumerate(heads):
        top = {"yref": "paper", "yanchor": "bottom"}
        notes.append(note(words, x, 1, palette.muted, xanchor=anchor, xshift=shift, **top))
    widest = room([f"{line.row} 00.0" for line in both])
    figure = plot(
        palette,
        traces,
        60 + ROW * len(both),
        (widest, widest, 40, 8),
        annotations=notes,
        xaxis={"visible": False, "range": [-0.02, 1.02]},
        yaxis={"visible": False, "range": [len(both) + 0.6, 0.4]},
    )
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
