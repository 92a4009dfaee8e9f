"""The paper's numbers beside ours: each with its interval, the order of the methods, differences with their signs.

What is drawn are columns of `retrofit_core.experiments.table`.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go

from .noise import margin
from .palette import TEXT, Palette
from .picture import Picture, axis, layout, listing, number, room, rows, titled
from .quantities import Quantity, quantity

#: Height of a row, of an entry of the legend, and of the axis' numbers and title, in px.
ROW, ENTRY, NUMBERS, TITLE = 25, 21, 28, 24
#: The paper's own methods, and the rows that are no methods.
OURS = ("HF-", "KF-")
PARENT, REFERENCES, BEST = "Parent ", ("Ensemble", "Average"), ", best"
#: What a difference's verdict looks like, and whether it is filled: the paper's sign, the other sign, or none.
VERDICTS = {"agreed": ("circle", True), "not agreed": ("x", True), "undecided": ("circle-open", False)}


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
    printed = [
        (name, line) for name, line in zip(names, lines, strict=True) if line.paper and _drawn(line.paper.mean, kind)
    ]
    figure.add_scatter(
        name="paper, ± deviation over seeds" if any(line.paper.deviation for _, line in printed) else "paper",
        x=[line.paper.mean for _, line in printed],
        y=[name for name, _ in printed],
        mode="markers",
        error_x={
            "array": [line.paper.deviation or 0 for _, line in printed],
            "color": palette.muted,
            "thickness": 1.5,
            "width": 4,
        },
        marker={"symbol": "diamond-open", "size": 10, "color": palette.muted, "line": {"width": 2}},
        customdata=[kind.words(line.paper.mean) for _, line in printed],
        hovertemplate="%{y}, paper: %{customdata}<extra></extra>",
        showlegend=bool(printed),
    )
    known = [
        (name, line)
        for name, line in zip(names, lines, strict=True)
        if line.mean is not None and _drawn(line.mean, kind)
    ]
    figure.add_scatter(
        name=f"ours ({column.badge}){_interval_words(lines, kind)}",
        x=[line.mean for _, line in known],
        y=[name for name, _ in known],
        mode="markers",
        error_x={
            "array": [_reach(column, line, kind) for _, line in known],
            "color": palette.ink,
            "thickness": 1.5,
            "width": 4,
        },
        marker={
            "symbol": "circle",
            "size": 10,
            "color": [palette.accent if line.row.startswith(OURS) else palette.grey for _, line in known],
            "line": {"width": 1, "color": palette.ink},
        },
        customdata=[_words(line, kind) for _, line in known],
        hovertemplate="%{y}, ours: %{customdata}<extra></extra>",
        cliponaxis=False,  # a mark at 0 is whole
    )
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
        legend=_legend(palette),
        showlegend=True,  # also where there is nothing of the paper
    )
    values = [*(line.mean for _, line in known), *(line.paper.mean for _, line in printed)]
    figure.update_xaxes(side="bottom", **kind.axis(values, palette))
    if not kind.is_accuracy:
        figure.update_xaxes(title=titled(kind.name))
    figure.update_yaxes(range=[len(lines) - 0.4, -0.6], **_listed(names, palette))
    words = ", ".join(
        f"{line.row} {kind.plain(line.mean)}" + (f" (paper {kind.plain(line.paper.mean)})" if line.paper else "")
        for _, line in known
    )
    return Picture(
        figure,
        f"Dot plot of {kind.name}, ours ({column.badge}) and the paper's: {words}.",
        _finding(column, best, ensemble) if kind.is_accuracy else _extremes(column, [line for _, line in known], kind),
    )


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
        and not _is_repeated(column, line)
    ]
    if len(both) < 2:
        raise ValueError(
            f"{column.table}, {column.name} has fewer than two methods with both numbers: there is no order."
        )
    left, right = _ranks(both, lambda line: line.paper.mean), _ranks(both, _mean)
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


def differences(column: Any, palette: Palette) -> Picture:
    """The differences between rows that the paper's numbers claim, and ours with the 95 % interval: does the sign hold?

    Args:
        column: as in `beside_the_paper`.
    Raises:
        ValueError: none of the differences is measured.
    """
    claims = [claim for claim in column.block.claims if claim.ours is not None]
    if not claims:
        raise ValueError(f"none of the paper's differences in {column.table}, {column.name} is measured.")
    names = [f"{escape(claim.left)} \N{MINUS SIGN} {escape(claim.right)}" for claim in claims]
    figure = go.Figure()
    figure.add_scatter(
        name="paper",
        x=[claim.paper for claim in claims],
        y=names,
        mode="markers",
        marker={"symbol": "diamond-open", "size": 10, "color": palette.muted, "line": {"width": 2}},
        hovertemplate="%{y}, paper: %{x:+.1f} points<extra></extra>",
    )
    colours = {"agreed": palette.accent, "not agreed": palette.grouping, "undecided": palette.ink}
    titles = {
        "agreed": "ours, the paper's sign",
        "not agreed": "ours, the other sign",
        "undecided": "ours, undecided (interval contains 0)",
    }
    for verdict, (symbol, filled) in VERDICTS.items():
        of_verdict = [(name, claim) for name, claim in zip(names, claims, strict=True) if claim.verdict == verdict]
        figure.add_scatter(
            name=titles[verdict],
            x=[claim.ours for _, claim in of_verdict],
            y=[name for name, _ in of_verdict],
            mode="markers",
            error_x={
                "array": [claim.interval[1] - claim.ours for _, claim in of_verdict],
                "arrayminus": [claim.ours - claim.interval[0] for _, claim in of_verdict],
                "color": colours[verdict],
                "thickness": 1.5,
                "width": 4,
            },
            marker={"symbol": symbol, "size": 10, "color": colours[verdict], "line": {"width": 1 if filled else 2}},
            hovertemplate="%{y}, ours: %{x:+.2f} points<extra></extra>",
            showlegend=bool(of_verdict),
        )
    figure.add_vline(x=0, line={"color": palette.muted, "width": 1.5})
    entries = 1 + len({claim.verdict for claim in claims} & set(VERDICTS))
    bottom = NUMBERS + TITLE + entries * ENTRY + 8
    figure.update_layout(
        **layout(palette, height=12 + bottom + ROW * len(claims)),
        margin={"l": room(names), "r": 12, "t": 12, "b": bottom},
        legend=_legend(palette),
    )
    figure.update_xaxes(title=titled("points of accuracy"), zeroline=False, **axis(palette))
    figure.update_yaxes(range=[len(claims) - 0.4, -0.6], **_listed(names, palette))
    verdicts = [claim.verdict for claim in claims]
    counts = [f"{verdicts.count(verdict)} {word}" for verdict, word in _COUNTED.items() if verdict in verdicts]
    finding = f"Of {len(claims)} differences that the paper's numbers claim, {listing(counts)}."
    against = [f"{claim.left} against {claim.right}" for claim in claims if claim.verdict == "not agreed"]
    finding += f" The other sign: {listing(against)}." if against else ""
    return Picture(
        figure, f"Dot plot of differences in accuracy, the paper's and ours ({column.badge}). {finding}", finding
    )


_COUNTED = {
    "agreed": "have its sign",
    "not agreed": "have the other one",
    "undecided": "are undecided",
    "no claim": "are 0 in the paper",
}


def _in_order(column: Any) -> list[Any]:
    """The measured lines: references and parents, the paper's methods by its accuracy, then those that it lacks by ours."""
    lines = [line for line in column.lines if not _is_repeated(column, line)]
    best = {line.stands_for for line in lines if line.row.endswith(BEST)}
    lines = [line for line in lines if line.row not in best]
    first = [line for line in lines if line.row in REFERENCES or line.row.startswith(PARENT)]
    printed = [line for line in lines if line not in first and line.paper is not None]
    others = [line for line in lines if line not in first and line.paper is None]
    printed.sort(key=lambda line: -line.paper.mean)
    return [*first, *printed, *sorted(others, key=lambda line: -line.mean)]


def _is_repeated(column: Any, line: Any) -> bool:
    """Whether a "best" is that of a row which the paper prints, too."""
    return line.row.endswith(BEST) and column.line(line.stands_for).paper is not None


def _group_ends(lines: Sequence[Any]) -> list[int]:
    """After which lines another kind begins: parents and references, the paper's methods, rows that it lacks."""
    kinds = [0 if line.row in REFERENCES or line.row.startswith(PARENT) else 1 + (line.paper is None) for line in lines]
    return [index for index, pair in enumerate(zip(kinds, kinds[1:], strict=False)) if pair[0] != pair[1]]


def _listed(names: Sequence[str], palette: Palette) -> dict[str, Any]:
    """The vertical axis of rows in this order, from the top."""
    apart = {"ticklabelstandoff": 9}  # px: a mark at the axis' end does not touch its name
    order = {"type": "category", "categoryorder": "array", "categoryarray": names}
    return {**rows(palette), **apart, **order, "autorange": False}


def _legend(palette: Palette) -> dict[str, Any]:
    """Below everything, an entry a line."""
    font = {"size": TEXT, "color": palette.ink}
    return {"y": 0, "yref": "container", "yanchor": "bottom", "x": 0, "bgcolor": "rgba(0,0,0,0)", "font": font}


def _ranks(lines: Sequence[Any], value: Any) -> dict[str, int]:
    """Row -> its place, from 1."""
    return {line.row: place for place, line in enumerate(sorted(lines, key=lambda line: -value(line)), 1)}


def _mean(line: Any) -> float:
    return line.mean


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
    top = max(methods, key=_mean)
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


def _drawn(value: float, kind: Quantity) -> bool:
    """Whether a number has a place on the axis: 0 has none on a logarithmic one."""
    return value > 0 or not kind.is_log


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
    return max(parents, key=_mean, default=None), ensemble


def _extremes(column: Any, lines: Sequence[Any], kind: Quantity) -> str:
    """The smallest and the largest number, each beside the paper's."""
    if not lines:
        return f"Scale {column.badge}."
    least, most = min(lines, key=_mean), max(lines, key=_mean)
    ends = [f"{line.row} {kind.words(line.mean)}{_paper_words(line, kind)}" for line in (least, most)]
    words = f"From {ends[0]} to {ends[1]}" if least is not most else ends[0]
    return f"{words[0].upper()}{words[1:]} (scale {column.badge})."
