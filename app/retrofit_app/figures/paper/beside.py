"""The paper's numbers beside ours, row by row."""

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from math import ceil
from typing import Any

from ..drawing import TOP, across_paper, axis, edge, error_bars, mark, note, up_paper
from ..noise import margin
from ..palette import Palette
from ..picture import Picture
from ..quantities import Quantity, quantity
from ..words import lettered, number, signed
from .rows import (
    BEST,
    OURS,
    PARENT,
    REFERENCES,
    at,
    dot_plot,
    dots,
    is_repeated,
    mean,
    paper_mark,
    title_of,
)

#: Rows of one picture of several, and what the first ones are.
MOST, BESIDE = 20, "ours beside the paper's"


def beside_in_parts(column: Any, palette: Palette) -> list[Picture]:
    """`beside_the_paper` in pictures of at most MOST rows: if one is not enough, those that the paper prints, then those that
    it lacks. No picture where nothing in the column is measured.
    """
    lines = in_order(column)
    if len(lines) <= MOST:
        return [beside_the_paper(column, palette)] if lines else []
    groups = {
        BESIDE: [line.row for line in lines if _kind(line) < 2],
        "rows that the paper lacks": [line.row for line in lines if _kind(line) == 2],
    }
    pictures = []
    for words, rows in groups.items():
        count = ceil(len(rows) / MOST)
        for index in range(count):
            part = f"{words}, {index + 1} of {count}" if count > 1 else words
            size = ceil(len(rows) / count)
            pictures.append(beside_the_paper(column, palette, rows[index * size : (index + 1) * size], part))
    return pictures


def beside_the_paper(column: Any, palette: Palette, order: Sequence[str] = (), rows: str = "") -> Picture:
    """Each row's number, the paper's with its deviation and ours with its interval.

    Accuracies have a 95 % interval over test images, other numbers a deviation over seeds; seconds have a logarithmic
    axis, which omits zeros.

    Args:
        column: a `ReproducedColumn`.
        order: rows to show, from the top (default: all measured ones, the paper's best first, then those it lacks).
        rows: what they are, for the title.
    Raises:
        ValueError: nothing in the column is measured, or it lacks a row.
    """
    lines = [column.line(row) for row in order] or in_order(column)
    if not lines:
        raise ValueError(f"nothing is measured of {column.table}, {column.name}: there is nothing to draw.")
    kind = quantity(column.metric)
    names = {line.row: f"{escape(lettered(line.row))}{at(line.badge)}" for line in lines}
    printed = [line for line in lines if _has_place(line.paper, kind)]
    ours = [line for line in lines if _has_place(line, kind)]
    best, ensemble = _standards(column) if kind.is_accuracy else (None, None)
    # Their texts are at two heights, so that near lines stay readable.
    uprights = [
        (line.mean, f"our {word}", shift)
        for line, word, shift in ((best, "best parent", 2), (ensemble, "ensemble", 20))
        if line is not None
    ]
    bars = "95 % interval over test images" if kind.is_accuracy else "± deviation over seeds"
    traces = [
        dots(
            [(line.paper.mean, names[line.row]) for line in printed],
            "paper, ± deviation over seeds" if any(line.paper.deviation for line in printed) else "paper",
            "%{y}, paper: %{customdata}",
            paper_mark(palette),
            error_x=error_bars([line.paper.deviation or 0 for line in printed], palette.muted),
            customdata=[kind.words(line.paper.mean) for line in printed],
        ),
        {
            **dots(
                [(line.mean, names[line.row]) for line in ours],
                f"ours ({column.badge}){', squares: another scale' if any(line.badge for line in ours) else ''}, {bars}",
                "%{y}, ours: %{customdata}",
                mark(
                    ["square" if line.badge else "circle" for line in ours],
                    10,
                    [palette.accent if line.row.startswith(OURS) else palette.grey for line in ours],
                    palette.ink,
                ),
                error_x=error_bars([_reach(line, kind) for line in ours], palette.ink),
                customdata=[_words(line, kind) for line in ours],
                cliponaxis=False,  # do not cut a mark at 0
            ),
            "showlegend": True,  # even without numbers of the paper
        },
    ]
    values = [*(line.mean for line in ours), *(line.paper.mean for line in printed)]
    numbers = [f"{lettered(line.row)} {kind.plain(line.mean)}{_paper_words(line, kind)}" for line in ours]
    return dot_plot(
        palette,
        traces,
        list(names.values()),
        f"Dot plot of {kind.name}, ours ({column.badge}) and the paper's: {', '.join(numbers)}",
        caption=_finding(column, best, ensemble) if kind.is_accuracy else f"Scale {column.badge}.",
        title=f"{title_of(column)}: {rows or (BESIDE if printed else 'ours')}",
        above=44 if uprights else 12,
        showlegend=True,
        shapes=[
            *(up_paper(value, edge(palette.muted, 1, "dot")) for value, *_ in uprights),
            *(across_paper(end + 0.5, edge(palette.line)) for end in _group_ends(lines)),
        ],
        annotations=[
            note(words, x, 1, palette.muted, yshift=shift, xanchor="right" if x > max(values) / 2 else "left", **TOP)
            for x, words, shift in uprights
        ],
        xaxis=axis(kind.name, side="bottom", **kind.axis(values)),
    )


def _kind(line: Any) -> int:
    """0 for parents and references, 1 for the paper's methods, 2 for rows it lacks."""
    is_first = line.row in REFERENCES or line.row.startswith(PARENT)
    return 0 if is_first else 1 if line.paper is not None else 2


def in_order(column: Any) -> list[Any]:
    """The measured lines: references and parents, the paper's methods by its accuracy, then those it lacks by ours."""
    lines = [line for line in column.lines if not is_repeated(column, line)]
    best = {line.stands_for for line in lines if line.row.endswith(BEST)}
    lines = [line for line in lines if line.row not in best]
    by = (lambda line: 0.0), (lambda line: -line.paper.mean), (lambda line: -line.mean)
    return sorted(lines, key=lambda line: (_kind(line), by[_kind(line)](line)))


def _group_ends(lines: Sequence[Any]) -> list[int]:
    """The lines after which another kind begins."""
    return [index for index, (one, next_) in enumerate(pairwise(lines)) if _kind(one) != _kind(next_)]


def _finding(column: Any, best: Any, ensemble: Any) -> str:
    """The best of the paper's methods against the best parent and the ensemble."""
    rows = [line for line in column.lines if line.row.startswith(OURS) and not line.stands_for and not line.badge]
    methods = [line for line in rows if line.paper is not None] or rows
    if not methods:
        return f"Scale {column.badge}."
    top = max(methods, key=mean)
    words = f"{top.row} has {number(top.mean)} %"
    if best is not None:
        words += f", {signed(top.mean - best.mean)} against the best parent"
    if ensemble is not None:
        words += f" and {signed(top.mean - ensemble.mean)} against the ensemble"
    return f"{words} (scale {column.badge})."


def _words(line: Any, kind: Quantity) -> str:
    deviation = "" if line.deviation is None else f" ± {number(line.deviation, max(1, kind.digits))}"
    return f"{kind.words(line.mean)}{deviation} ({len(line.values)} {'seed' if len(line.values) == 1 else 'seeds'})"


def _paper_words(line: Any, kind: Quantity) -> str:
    return "" if line.paper is None else f" (paper {kind.plain(line.paper.mean)})"


def _has_place(number_of: Any, kind: Quantity) -> bool:
    """Whether there is a number, and it has a place on the axis: 0 has none on a logarithmic axis."""
    return bool(number_of) and number_of.mean is not None and (number_of.mean > 0 or not kind.is_log)


def _reach(line: Any, kind: Quantity) -> float:
    """Half the interval of our number; 0 if unknown."""
    if not kind.is_accuracy:
        return line.deviation or 0.0
    return margin(line.mean, line.images) if line.images else 0.0


def _standards(column: Any) -> tuple[Any, Any]:
    """The lines of our best parent and the ensemble; None if unmeasured."""
    lines = [line for line in column.lines if not line.badge]
    parents = [line for line in lines if line.row.startswith(PARENT)]
    ensemble = next((line for line in lines if line.row == "Ensemble"), None)
    return max(parents, key=mean, default=None), ensemble
