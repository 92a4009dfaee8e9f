"""The paper's numbers beside ours, row by row."""

from collections.abc import Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go

from ..noise import margin
from ..palette import TEXT, Palette
from ..picture import Picture, layout, number, room, titled
from ..quantities import Quantity, quantity
from .rows import BEST, ENTRY, NUMBERS, OURS, PARENT, REFERENCES, ROW, TITLE, is_repeated, legend, listed, mean


def beside_the_paper(column: Any, palette: Palette, order: Sequence[str] = ()) -> Picture:
    """Each row's number, the paper's with its deviation and ours with its interval, one row above the other.

    Accuracies have their 95 % interval over test images, other numbers their deviation over seeds; seconds have a
    logarithmic axis, on which numbers that are 0 are left out.

    Args:
        column: a `ReproducedColumn`.
        order: rows to show, from the top (default: all that are measured, the paper's best first, then those it lacks).
    Raises:
        ValueError: nothing of the column is measured, or a row that it does not have.
    """
    lines = [column.line(row) for row in order] or _in_order(column)
    if not lines:
        raise ValueError(f"nothing is measured of {column.table}, {column.name}: there is nothing to draw.")
    kind = quantity(column.block.metric)
    names = [escape(line.row) for line in lines]
    figure = go.Figure()
    printed = [(name, line) for name, line in zip(names, lines, strict=True) if _is_drawn(line.paper, kind)]
    known = [(name, line) for name, line in zip(names, lines, strict=True) if _is_drawn(line, kind)]
    _add_papers(figure, printed, kind, palette)
    _add_ours(figure, known, column, f"ours ({column.badge}){_interval_words(lines, kind)}", kind, palette)
    best, ensemble = _standards(lines) if kind.is_accuracy else (None, None)
    for line, word in ((best, "best parent"), (ensemble, "ensemble")):
        if line is not None:
            _upright(figure, line.mean, f"our {word}", palette, above=line is ensemble)
    for above in _group_ends(lines):
        figure.add_hline(y=above + 0.5, line={"color": palette.line, "width": 1})
    title = 0 if kind.is_accuracy else TITLE
    top, bottom = 44 if kind.is_accuracy else 12, NUMBERS + title + (2 if printed else 1) * ENTRY + 8
    figure.update_layout(
        **layout(palette, height=top + bottom + ROW * len(lines)),
        margin={"l": room(names), "r": 12, "t": top, "b": bottom},
        legend=legend(palette),
        showlegend=True,  # also where there is nothing of the paper
    )
    values = [*(line.mean for _, line in known), *(line.paper.mean for _, line in printed)]
    figure.update_xaxes(side="bottom", **kind.axis(values, palette))
    if not kind.is_accuracy:
        figure.update_xaxes(title=titled(kind.name))
    figure.update_yaxes(range=[len(lines) - 0.4, -0.6], **listed(names, palette))
    words = ", ".join(
        f"{line.row} {kind.plain(line.mean)}" + (f" (paper {kind.plain(line.paper.mean)})" if line.paper else "")
        for _, line in known
    )
    return Picture(
        figure,
        f"Dot plot of {kind.name}, ours ({column.badge}) and the paper's: {words}.",
        _finding(column, best, ensemble) if kind.is_accuracy else _extremes(column, [line for _, line in known], kind),
    )


def _add_papers(figure: go.Figure, lines: Sequence[tuple[str, Any]], kind: Quantity, palette: Palette) -> None:
    """The paper's numbers, each with its deviation over seeds where it prints one.

    Args:
        lines: (name, line).
    """
    figure.add_scatter(
        name="paper, ± deviation over seeds" if any(line.paper.deviation for _, line in lines) else "paper",
        x=[line.paper.mean for _, line in lines],
        y=[name for name, _ in lines],
        mode="markers",
        error_x=_bars([line.paper.deviation or 0 for _, line in lines], palette.muted),
        marker={"symbol": "diamond-open", "size": 10, "color": palette.muted, "line": {"width": 2}},
        customdata=[kind.words(line.paper.mean) for _, line in lines],
        hovertemplate="%{y}, paper: %{customdata}<extra></extra>",
        showlegend=bool(lines),
    )


def _add_ours(
    figure: go.Figure, lines: Sequence[tuple[str, Any]], column: Any, title: str, kind: Quantity, palette: Palette
) -> None:
    """Our numbers, each with its interval.

    Args:
        lines: (name, line).
    """
    figure.add_scatter(
        name=title,
        x=[line.mean for _, line in lines],
        y=[name for name, _ in lines],
        mode="markers",
        error_x=_bars([_reach(column, line, kind) for _, line in lines], palette.ink),
        marker={
            "symbol": "circle",
            "size": 10,
            "color": [palette.accent if line.row.startswith(OURS) else palette.grey for _, line in lines],
            "line": {"width": 1, "color": palette.ink},
        },
        customdata=[_words(line, kind) for _, line in lines],
        hovertemplate="%{y}, ours: %{customdata}<extra></extra>",
        cliponaxis=False,  # a mark at 0 is whole
    )


def _bars(reaches: Sequence[float], colour: str) -> dict[str, Any]:
    return {"array": list(reaches), "color": colour, "thickness": 1.5, "width": 4}


def _in_order(column: Any) -> list[Any]:
    """The measured lines: references and parents, the paper's methods by its accuracy, then those that it lacks by ours."""
    lines = [line for line in column.lines if not is_repeated(column, line)]
    best = {line.stands_for for line in lines if line.row.endswith(BEST)}
    lines = [line for line in lines if line.row not in best]
    first = [line for line in lines if line.row in REFERENCES or line.row.startswith(PARENT)]
    printed = [line for line in lines if line not in first and line.paper is not None]
    others = [line for line in lines if line not in first and line.paper is None]
    printed.sort(key=lambda line: -line.paper.mean)
    return [*first, *printed, *sorted(others, key=lambda line: -line.mean)]


def _group_ends(lines: Sequence[Any]) -> list[int]:
    """After which lines another kind begins: parents and references, the paper's methods, rows that it lacks."""
    kinds = [0 if line.row in REFERENCES or line.row.startswith(PARENT) else 1 + (line.paper is None) for line in lines]
    return [index for index, pair in enumerate(zip(kinds, kinds[1:], strict=False)) if pair[0] != pair[1]]


def _upright(figure: go.Figure, value: float, words: str, palette: Palette, above: bool) -> None:
    """A vertical line with its words at the top, on the one side or on the other, so that two near each other can be read."""
    figure.add_vline(x=value, line={"color": palette.muted, "width": 1, "dash": "dot"})
    figure.add_annotation(
        x=value,
        y=1,
        yref="paper",
        yanchor="bottom",
        yshift=20 if above else 2,
        text=words,
        showarrow=False,
        font={"size": TEXT, "color": palette.muted},
    )


def _finding(column: Any, best: Any, ensemble: Any) -> str:
    """The best of the paper's methods against the best parent and the ensemble."""
    rows = [line for line in column.lines if line.row.startswith(OURS) and not line.stands_for]
    methods = [line for line in rows if line.paper is not None] or rows
    if not methods:
        return f"Scale {column.badge}."
    top = max(methods, key=mean)
    words = f"{top.row} has {number(top.mean)} %"
    if best is not None:
        words += f", {_signed(top.mean - best.mean)} against the best parent"
    if ensemble is not None:
        words += f" and {_signed(top.mean - ensemble.mean)} against the ensemble"
    return f"{words} (scale {column.badge})."


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{number(value)}"


def _words(line: Any, kind: Quantity) -> str:
    deviation = "" if line.deviation is None else f" ± {number(line.deviation, max(1, kind.digits))}"
    return f"{kind.words(line.mean)}{deviation} ({len(line.values)} {'seed' if len(line.values) == 1 else 'seeds'})"


def _paper_words(line: Any, kind: Quantity) -> str:
    return "" if line.paper is None else f" (paper {kind.words(line.paper.mean)})"


def _is_drawn(number_of: Any, kind: Quantity) -> bool:
    """Whether a number is known and has a place on the axis: 0 has none on a logarithmic one."""
    return bool(number_of) and number_of.mean is not None and (number_of.mean > 0 or not kind.is_log)


def _reach(column: Any, line: Any, kind: Quantity) -> float:
    """Half the interval of a number of ours; 0 where it is not known."""
    if not kind.is_accuracy:
        return line.deviation or 0.0
    images = column.images(line.row)
    return margin(line.mean, images=images) if images else 0.0


def _interval_words(lines: Sequence[Any], kind: Quantity) -> str:
    """What the bars of our numbers are; nothing where there are none."""
    if kind.is_accuracy:
        return ", 95 % interval over test images"
    return ", ± deviation over seeds" if any(line.deviation for line in lines) else ""


def _standards(lines: Sequence[Any]) -> tuple[Any, Any]:
    """The lines of our best parent and of the ensemble; None where they are not measured."""
    parents = [line for line in lines if line.row.startswith(PARENT) and line.mean is not None]
    ensemble = next((line for line in lines if line.row == "Ensemble" and line.mean is not None), None)
    return max(parents, key=mean, default=None), ensemble


def _extremes(column: Any, lines: Sequence[Any], kind: Quantity) -> str:
    """The smallest and the largest number, each beside the paper's."""
    if not lines:
        return f"Scale {column.badge}."
    least, most = min(lines, key=mean), max(lines, key=mean)
    ends = [f"{line.row} {kind.words(line.mean)}{_paper_words(line, kind)}" for line in (least, most)]
    words = f"From {ends[0]} to {ends[1]}" if least is not most else ends[0]
    return f"{words[0].upper()}{words[1:]} (scale {column.badge})."
