"""Which part of the method earns the gain: what changing one part costs or gains against the whole method."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from .drawing import BELOW, HEAD, Trace, drawn, edge, mark, note, room, rows, scatter, spread
from .palette import Palette
from .picture import Picture
from .words import listing, number, signed

#: Heights in px: a row, the panels' titles, the axis, the legend; and the width for numbers.
ROW, TOP, AXIS, LEGEND, NUMBERS = 24, 48, 34, 50, 44
#: Share of the width between two panels.
BETWEEN = 0.03
#: Default ends of the axis, in points; dots beyond are drawn at the end, with their number.
FARTHEST = (-12.0, 5.0)
EDGE = 0.5  # points between the farthest dot and the axis' end; twice as many on the left, beside the names
#: A result's symbol and its text in the legend.
KINDS = {
    "worse": ("circle", "worse than the whole"),
    "better": ("diamond", "better"),
    "undecided": ("circle-open", "undecided: the 95 % interval contains 0"),
}
BEYOND = ("triangle-left", "triangle-right")


def parts(
    columns: Sequence[Any], changes: Sequence[Any], palette: Palette, farthest: tuple[float, float] = FARTHEST
) -> Picture:
    """A dot with a 95 % interval over test images for each change, one panel per kind of parents; 0 is the whole method.

    Short ticks are single seeds, if there are several. Numbers on the right are the dots'.

    Args:
        columns: `ReproducedColumn`s of the tables `ablation` or `beyond`; those without any of the changes are left out.
        changes: `Change`s; if all change one whole, its accuracy is shown; those in no column are left out.
        farthest: the axis' outermost ends, in points.
    Raises:
        ValueError: none of the changes is measured.
    """
    gaps = [{change: _gap(column, change) for change in changes} for column in columns]
    measured = [change for change in changes if any(of_column[change] for of_column in gaps)]
    if not measured:
        raise ValueError("none of these changes is measured: there is nothing to draw.")
    known = [
        (column, {change: gap for change, gap in of_column.items() if gap})
        for column, of_column in zip(columns, gaps, strict=True)
        if any(of_column.values())
    ]
    places, heads = _places(measured)
    lowest = max(places.values()) + 0.6
    scale = _Scale(places, _range([gap for _, of in known for gap in of.values()], farthest), palette)
    width = (1 - BETWEEN * (len(known) - 1)) / len(known)
    inner = width * (1 - NUMBERS / _panel_px(len(known), measured))  # without the numbers
    one_whole = measured[0].whole if len({change.whole for change in measured}) == 1 else None
    traces, shapes, notes, axes = scale.legend(), [], [], {}
    for index, (column, of_column) in enumerate(known):
        left, side = index * (width + BETWEEN), f"x{index + 1 if index else ''}"
        traces += [*(scale.dots(column, of_column, kind, side) for kind in KINDS), scale.seeds(of_column, side)]
        zero = {"type": "line", "xref": side, "yref": "y", "x0": 0, "x1": 0, "y0": -0.6, "y1": lowest}
        shapes.append({**zero, "line": edge(palette.muted)})
        axes[f"xaxis{side[1:]}"] = {"domain": [left, left + inner], "anchor": "y", "range": scale.range, "nticks": 4}
        whole = f"<br>the whole: {number(column.main.number(one_whole))}\N{NO-BREAK SPACE}%" if one_whole else ""
        notes.append(note(f"<b>{escape(column.name)}</b>{whole}", left, 1, **HEAD, yshift=4, align="left"))
        notes += scale.numbers(of_column, left + width)
    ticks = {places[change]: escape(change.words, quote=False) for change in measured}
    ticks = dict(sorted((ticks | {line: f"<b>{escape(part)}</b>" for part, line in heads.items()}).items()))
    badges = listing(list(dict.fromkeys(column.badge for column, _ in known)))
    return drawn(
        palette,
        traces,
        TOP + AXIS + LEGEND + round(ROW * (lowest + 0.6)),
        f"Dot plot of changes in accuracy ({badges}), one panel each for {listing([column.name for column, _ in known])}",
        _finding(known),
        title=f"{columns[0].setting.table.title.split(':')[0]}: points of accuracy",
        margin=(room(list(ticks.values())), 4, TOP, AXIS + LEGEND),
        **axes,
        shapes=shapes,
        annotations=notes,
        legend={**BELOW, "orientation": "h", "xref": "container"},
        yaxis=rows(palette, autorange=False, range=[lowest, -0.6], tickvals=list(ticks), ticktext=list(ticks.values())),
    )


@dataclass(frozen=True)
class _Scale:
    """The panels' shared axes, and what they draw."""

    rows: dict[Any, float]
    """Each change's row"""
    range: tuple[float, float]
    """The axis' ends; dots beyond are triangles there"""
    palette: Palette

    def legend(self) -> list[Trace]:
        """The legend of the dots' colours and shapes."""
        return [
            scatter([None], [None], "markers", name=words, marker=self._mark(kind, symbol, 8))
            for kind, (symbol, words) in KINDS.items()
        ]

    def dots(self, column: Any, gaps: dict[Any, Any], kind: str, side: str) -> Trace:
        """The dots of one kind; those beyond the axis have no interval."""
        low, high = self.range[0] + EDGE, self.range[1]
        gaps = {change: gap for change, gap in gaps.items() if _kind(gap) == kind}
        inside = [low <= gap.points <= high for gap in gaps.values()]
        ends = [
            (gap.interval[0], gap.points, gap.interval[1]) if ok else (0.0,) * 3
            for gap, ok in zip(gaps.values(), inside, strict=True)
        ]
        symbols = [
            KINDS[kind][0] if ok else BEYOND[gap.points > 0] for gap, ok in zip(gaps.values(), inside, strict=True)
        ]
        marker = self._mark(kind, symbols, [7 if ok else 10 for ok in inside])
        return scatter(
            [min(max(gap.points, low), high) for gap in gaps.values()],
            [self.rows[change] for change in gaps],
            "markers",
            [_tip(column, change, gap) for change, gap in gaps.items()],
            xaxis=side,
            error_x=spread(
                [top - middle for _, middle, top in ends],
                marker["color"],
                3,
                arrayminus=[middle - bottom for bottom, middle, _ in ends],
            ),
            marker=marker,
        )

    def seeds(self, gaps: dict[Any, Any], side: str) -> Trace:
        """Ticks of single seeds, if there are several."""
        places = [
            (points, self.rows[change])
            for change, gap in gaps.items()
            if len(gap.seeds) > 1
            for points in gap.seeds
            if self.range[0] + EDGE <= points <= self.range[1]
        ]
        x, y = [points for points, _ in places], [row for _, row in places]
        tick = {"symbol": "line-ns", "size": 9, "line": edge(self.palette.muted)}
        return scatter(x, y, "markers", xaxis=side, marker=tick)

    def numbers(self, gaps: dict[Any, Any], right: float) -> list[dict[str, Any]]:
        """Each change's number, on the right of a panel."""
        at = {"xref": "paper", "xanchor": "right", "yref": "y"}
        pale = {"undecided": self.palette.muted}
        return [
            note(signed(gap.points), right, self.rows[change], pale.get(_kind(gap)), **at)
            for change, gap in gaps.items()
        ]

    def _mark(self, kind: str, symbol: Any, size: Any) -> dict[str, Any]:
        colours = {"worse": self.palette.grouping, "better": self.palette.accent, "undecided": self.palette.ink}
        return mark(symbol, size, colours[kind], colours[kind], 2 if kind == "undecided" else 1)


def _gap(column: Any, change: Any) -> Any:
    """A change's difference; None if the column lacks it or it is unmeasured."""
    column = column.main  # one panel has one scale
    has = {change.row, change.whole} <= {line.row for line in column.all_lines}
    return column.gap(change.row, change.whole) if has else None


def _places(changes: Sequence[Any]) -> tuple[dict[Any, float], dict[str, int]]:
    """Each change's row, from the top, and the row of each part's name, before its changes."""
    parts = list(dict.fromkeys(change.part for change in changes))
    before = [sum(parts.index(change.part) < rank for change in changes) for rank in range(len(parts))]
    places = {change: float(index + 1 + parts.index(change.part)) for index, change in enumerate(changes)}
    return places, {part: rank + count for rank, (part, count) in enumerate(zip(parts, before, strict=True))}


def _range(gaps: Sequence[Any], farthest: tuple[float, float]) -> tuple[float, float]:
    """The range of dots and intervals, within the farthest ends, including 0 and a little room."""
    ends = [end for gap in gaps for end in gap.interval]
    low, high = max(farthest[0], min(0.0, *ends)), min(farthest[1], max(0.0, *ends))
    return low - 2 * EDGE, high + EDGE


def _panel_px(panels: int, changes: Sequence[Any]) -> float:
    """A panel's approximate width in a notebook, in px."""
    return (800 - room([change.words for change in changes])) / panels


def _kind(gap: Any) -> str:
    if gap.interval[0] <= 0 <= gap.interval[1]:
        return "undecided"
    return "better" if gap.points > 0 else "worse"


def _tip(column: Any, change: Any, gap: Any) -> str:
    seeds = f", {len(gap.seeds)} seeds" if len(gap.seeds) > 1 else ""
    return (
        f"{escape(change.part)}: {escape(change.words)}<br>{signed(gap.points)} points "
        f"({signed(gap.interval[0])} to {signed(gap.interval[1])}{seeds})<br>{escape(column.name)}, {escape(column.badge)}"
    )


def _finding(panels: Sequence[tuple[Any, dict[Any, Any]]]) -> str:
    """For each kind of parents, the change with the largest effect."""
    words = []
    for column, gaps in panels:
        most = max(gaps, key=lambda change: abs(gaps[change].points))
        words.append(f"{column.name}: {most.part}, {most.words} ({signed(gaps[most].points)} points)")
    return f"What changes most: {'; '.join(words)}."
