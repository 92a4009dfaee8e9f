"""The order of the methods in the paper and here."""

from collections.abc import Sequence
from html import escape
from typing import Any

from ..drawing import TOP, drawn, edge, note, room, scatter
from ..palette import Palette
from ..picture import Picture
from ..words import number
from .rows import OURS, PARENT, ROW, is_repeated, mean, titled


def rank_against_rank(column: Any, palette: Palette) -> Picture:
    """The methods' order in the paper, on the left, and in ours, on the right; lines join equal methods.

    Rows at another scale than the column's, or without the parents that most rows have, have no place in it.

    Args:
        column: a `ReproducedColumn` whose numbers are accuracies.
    Raises:
        ValueError: fewer than two methods have a number in both.
    """
    both = [line for line in column.comparable if not line.row.startswith(PARENT) and not is_repeated(column, line)]
    if len(both) < 2:
        raise ValueError(
            f"{column.table}, {column.name} has fewer than two methods with both numbers: there is no order."
        )
    left, right = _ranks(both, lambda line: line.paper.mean), _ranks(both, mean)
    traces, notes = [], []
    # Headings are over the names, not over the lines' ends: long names leave little room between these.
    sides = [
        (0, {"xanchor": "right", "xshift": -10}, "paper"),
        (1, {"xanchor": "left", "xshift": 10}, "ours"),
    ]
    for line in both:
        ours, name = line.row.startswith(OURS), escape(line.row)
        colour = palette.accent if ours else palette.grey
        ends = [(left[line.row], number(line.paper.mean)), (right[line.row], number(line.mean))]
        (paper_rank, paper_value), (rank, value) = ends
        traces.append(
            scatter(
                [0, 1],
                [paper_rank, rank],
                "lines+markers",
                f"{name}<br>paper: {paper_value} %, rank {paper_rank}<br>ours: {value} %, rank {rank}",
                line=edge(colour, 3 if ours else 1.5),
                marker={"size": 8, "color": colour, "symbol": "circle" if ours else "square"},
                cliponaxis=False,
            )
        )
        notes += [
            note(f"{name} {words}", x, place, **at) for (x, at, _), (place, words) in zip(sides, ends, strict=True)
        ]
    notes += [note(head, x, 1, palette.muted, **at, **TOP) for x, at, head in sides]
    moves = {line.row: abs(left[line.row] - right[line.row]) for line in both}
    steps = max(moves.values())
    moved = [row for row, move in moves.items() if move == steps]
    correlation = f", rank correlation {number(column.ranked.correlation, 2)}" if column.ranked else ""
    far = f"{steps} place{'' if steps == 1 else 's'}"
    most = f"{moved[0]} moves most, by {far}" if len(moved) == 1 else f"no method moves by more than {far}"
    order = most if steps else "the order is the same"
    widest = room([f"{line.row} 00.0" for line in both])
    return drawn(
        palette,
        traces,
        60 + ROW * len(both),
        "Two columns of methods in the order of their accuracy, joined by lines",
        f"{len(both)} methods{correlation}; {order}. Ours: {column.badge}.",
        title=f"{titled(column)}: the order of the methods, % of test images",
        margin=(widest, widest, 40, 8),
        annotations=notes,
        xaxis={"visible": False, "range": [-0.02, 1.02]},
        yaxis={"visible": False, "range": [len(both) + 0.6, 0.4]},
    )


def _ranks(lines: Sequence[Any], value: Any) -> dict[str, int]:
    """Row -> its rank, from 1."""
    return {line.row: rank for rank, line in enumerate(sorted(lines, key=lambda line: -value(line)), 1)}
