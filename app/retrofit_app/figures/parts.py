"""Which part of the method earns the gain: what each change of one part costs or brings, beside the whole method."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from .drawing import BELOW, Trace, edge, note, plot, room, rows, scatter
from .palette import Palette
from .picture import Picture, listing, number

#: Height of a row, of the panels' titles, of the axis' numbers and title, and of the legend; room for numbers, in px.
ROW, TOP, AXIS, LEGEND, NUMBERS = 24, 48, 34, 50, 44
#: Share of the width between two panels.
BETWEEN = 0.03
#: How far the axis reaches, in points, if nobody says so; what lies beyond stands at its end, with its number.
FARTHEST = (-12.0, 5.0)
#: What a change comes to: name, symbol.
KINDS = {"worse": "circle", "better": "diamond", "undecided": "circle-open"}
BEYOND = ("triangle-left", "triangle-right")
WORDS = {
    "worse": "worse than the whole",
    "better": "better",
    "undecided": "undecided: the 95 % interval contains 0",
}


def parts(
    columns: Sequence[Any], changes: Sequence[Any], palette: Palette, farthest: tuple[float, float] = FARTHEST
) -> Picture:
    """A dot and a 95 % interval over test images for each change, one panel for each kind of parents; 0 is what is changed.

    Short ticks are single seeds, where there are several. Numbers at the right are the dots'.

    Args:
        columns: `ReproducedColumn`s of the tables `ablation` or `beyond`; those that have none of the changes are left out.
        changes: `Change`s, usually of one whole, whose accuracy is then said; those that no column has are left out.
        farthest: how far the axis reaches at most to either side, in points.
    Raises:
        ValueError: none of the changes is measured.
    """
    gaps = [{change: _gap(column, change) for change in changes} for column in columns]
    shown = [change for change in changes if any(of_column[change] for of_column in gaps)]
    panels = [pair for pair in zip(columns, gaps, strict=True) if any(pair[1].values())]
    if not shown:
        raise ValueError("none of these changes is measured: there is nothing to draw.")
    places = _places(shown)
    low, high = _range([gap for _, of_column in panels for gap in of_column.values() if gap], farthest)
    colours = {"worse": palette.grouping, "better": palette.accent, "undecided": palette.ink}
    traces = _legend(colours)
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    lowest = max(places.values()) + 0.6
    settings: dict[str, Any] = {}
    width = (1 - BETWEEN * (len(panels) - 1)) / len(panels)
    scale = _Scale(places, low, high, lowest, colours, palette)
    for index, (column, of_column) in enumerate(panels):
        known = {change: gap for change, gap in of_column.items() if gap and change in places}
        panel = _Panel(column, known, f"x{index + 1 if index else ''}", index * (width + BETWEEN), width)
        traces += [*(_dots(panel, scale, kind, symbol) for kind, symbol in KINDS.items()), _seeds(panel, scale)]
        zero = {"type": "line", "xref": panel.side, "yref": "y", "x0": 0, "x1": 0, "y0": -0.6, "y1": scale.lowest}
        shapes.append({**zero, "line": edge(palette.muted)})
        settings[f"xaxis{panel.side[1:]}"] = {
            "domain": [panel.left, panel.left + width * (1 - NUMBERS / _panel_px(len(panels), shown))],
            "anchor": "y",
            "range": [low - 0.5, high],
            "zeroline": False,
            "nticks": 4,
        }
        one_whole = len({change.whole for change in shown}) == 1
        notes += [_head(panel, shown[0].whole if one_whole else None), *_numbers(panel, scale)]
    names = {places[change]: escape(change.words, quote=False) for change in shown}
    heads = {line: f"<b>{escape(part)}</b>" for part, line in _heads(shown).items()}
    ticks = dict(sorted((names | heads).items()))
    figure = plot(
        palette,
        traces,
        TOP + AXIS + LEGEND + round(ROW * (lowest + 0.6)),
        (room(list(ticks.values())), 4, TOP, AXIS + LEGEND),
        **settings,
        shapes=shapes,
        annotations=notes,
        legend={**BELOW, "orientation": "h", "xref": "container"},
        yaxis=rows(
            palette,
            autorange=False,
            range=[lowest, -0.6],
            tickvals=list(ticks),
            ticktext=list(ticks.values()),
        ),
    )
    badges = listing(list(dict.fromkeys(column.badge for column, _ in panels)))
    finding = _finding(panels, shown)
    alt = f"Dot plot of changes in accuracy ({badges}), one panel each for {listing([c.name for c, _ in panels])}. {finding}"
    return Picture(figure, alt, finding)


@dataclass(frozen=True)
class _Panel:
    """The changes of one kind of parents, and where they are drawn."""

    column: Any
    gaps: dict[Any, Any]
    """What each change comes to"""
    side: str
    """Name of its axis"""
    left: float
    width: float
    """Shares of the picture's width"""


@dataclass(frozen=True)
class _Scale:
    """What all panels share: the row of each change, the ends of the axis, the lowest row, and colours."""

    rows: dict[Any, float]
    low: float
    high: float
    lowest: float
    colours: dict[str, str]
    palette: Palette


def _seeds(panel: _Panel, scale: _Scale) -> Trace:
    """The ticks of single seeds, where there are several."""
    seeds = [
        (points, scale.rows[change])
        for change, gap in panel.gaps.items()
        if len(gap.seeds) > 1
        for points in gap.seeds
        if scale.low <= points <= scale.high
    ]
    tick = {"symbol": "line-ns", "size": 9, "line": edge(scale.palette.muted)}
    x, y = [points for points, _ in seeds], [row for _, row in seeds]
    return scatter(x, y, "markers", xaxis=panel.side, marker=tick, hoverinfo="skip")


def _dots(panel: _Panel, scale: _Scale, kind: str, symbol: str) -> Trace:
    """The changes of one kind; what lies beyond the axis is a triangle at its end, without an interval."""
    gaps = {change: gap for change, gap in panel.gaps.items() if _kind(gap) == kind}
    within = [scale.low <= gap.points <= scale.high for gap in gaps.values()]
    marks = list(zip(gaps.values(), within, strict=True))
    colour = scale.colours[kind]
    return scatter(
        [min(max(gap.points, scale.low), scale.high) for gap in gaps.values()],
        [scale.rows[change] for change in gaps],
        "markers",
        xaxis=panel.side,
        error_x={
            "array": [gap.interval[1] - gap.points if inside else 0.0 for gap, inside in marks],
            "arrayminus": [gap.points - gap.interval[0] if inside else 0.0 for gap, inside in marks],
            "color": colour,
            "thickness": 1.5,
            "width": 3,
        },
        marker={
            "symbol": [symbol if inside else BEYOND[gap.points > 0] for gap, inside in marks],
            "opacity": 1,  # marks of different sizes would be pale
            "size": [7 if inside else 10 for inside in within],
            "color": colour,
            "line": edge(colour, 2 if kind == "undecided" else 1),
        },
        text=[_hover(panel.column, change, gap) for change, gap in gaps.items()],
        hoverinfo="text",
    )


def _numbers(panel: _Panel, scale: _Scale) -> list[dict[str, Any]]:
    """What each change comes to, at the right."""
    right = {"xref": "paper", "xanchor": "right", "yref": "y"}
    return [
        note(
            _signed(gap.points),
            panel.left + panel.width,
            scale.rows[change],
            scale.palette.muted if _kind(gap) == "undecided" else None,
            **right,
        )
        for change, gap in panel.gaps.items()
    ]


def _gap(column: Any, change: Any) -> Any:
    """What the change comes to; None where a column does not have it, or it is not measured."""
    has = {change.row, change.whole} <= {line.row for line in column.block.lines}
    return column.gap(change.row, change.whole) if has else None


def _places(changes: Sequence[Any]) -> dict[Any, float]:
    """The row of each change, from the top; each part begins with a line of its own."""
    heads = _heads(changes)
    return {change: index + 1 + list(heads).index(change.part) for index, change in enumerate(changes)}


def _heads(changes: Sequence[Any]) -> dict[str, int]:
    """The line of each part's name; changes of one part follow each other."""
    order = list(dict.fromkeys(change.part for change in changes))
    before = [sum(order.index(change.part) < rank for change in changes) for rank in range(len(order))]
    return {part: rank + count for rank, (part, count) in enumerate(zip(order, before, strict=True))}


def _range(gaps: Sequence[Any], farthest: tuple[float, float]) -> tuple[float, float]:
    """As far as dots and intervals reach, within the farthest, with 0 and a little room."""
    ends = [end for gap in gaps for end in gap.interval]
    low, high = max(farthest[0], min(0.0, *ends)), min(farthest[1], max(0.0, *ends))
    return low - 0.5, high + 0.5


def _panel_px(panels: int, changes: Sequence[Any]) -> float:
    """About how wide a panel is on a page of a notebook, in px."""
    return (800 - room([change.words for change in changes])) / panels


def _kind(gap: Any) -> str:
    if gap.interval[0] <= 0 <= gap.interval[1]:
        return "undecided"
    return "better" if gap.points > 0 else "worse"


def _signed(points: float) -> str:
    shown = round(points, 1) or 0.0  # no minus before a zero
    return f"{'+' if shown > 0 else ''}{number(shown)}"


def _whole(column: Any, row: str) -> str:
    """The accuracy of the whole method."""
    return f"the whole: {number(column.number(row))}\N{NO-BREAK SPACE}%"


def _hover(column: Any, change: Any, gap: Any) -> str:
    seeds = f", {len(gap.seeds)} seeds" if len(gap.seeds) > 1 else ""
    return (
        f"{escape(change.part)}: {escape(change.words)}<br>{_signed(gap.points)} points "
        f"({_signed(gap.interval[0])} to {_signed(gap.interval[1])}{seeds})<br>{escape(column.name)}, {escape(column.badge)}"
    )


def _legend(colours: dict[str, str]) -> list[Trace]:
    """What the dots' colours and shapes say."""
    return [
        scatter(
            [None],
            [None],
            "markers",
            name=WORDS[kind],
            marker={
                "symbol": symbol,
                "size": 8,
                "color": colours[kind],
                "line": edge(colours[kind], 2 if kind == "undecided" else 1),
            },
        )
        for kind, symbol in KINDS.items()
    ]


def _head(panel: _Panel, whole: str | None) -> dict[str, Any]:
    """A panel's name, and the accuracy of the whole method where all changes are of one."""
    said = f"<br>{_whole(panel.column, whole)}" if whole else ""
    top = {"xref": "paper", "xanchor": "left", "yref": "paper", "yanchor": "bottom", "yshift": 4, "align": "left"}
    return note(f"<b>{escape(panel.column.name)}</b>{said}", panel.left, 1, **top)


def _finding(panels: Sequence[Any], changes: Sequence[Any]) -> str:
    """Of each kind of parents the change that costs or brings most."""
    words = []
    for column, of_column in panels:
        known = {change: gap for change, gap in of_column.items() if gap and change in changes}
        most = max(known, key=lambda change: abs(known[change].points))
        words.append(f"{column.name}: {most.part}, {most.words} ({_signed(known[most].points)} points)")
    return f"What changes most: {'; '.join(words)}."
