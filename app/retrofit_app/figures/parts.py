"""Which part of the method earns the gain: what each change of one part costs or brings, beside the whole method."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go

from .palette import TEXT, Palette
from .picture import Picture, axis, layout, listing, number, room

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
    figure = go.Figure(_legend(colours))
    lowest = max(places.values()) + 0.6
    settings: dict[str, Any] = {}
    width = (1 - BETWEEN * (len(panels) - 1)) / len(panels)
    scale = _Scale(places, low, high, lowest, colours, palette)
    for index, (column, of_column) in enumerate(panels):
        known = {change: gap for change, gap in of_column.items() if gap and change in places}
        panel = _Panel(column, known, f"x{index + 1 if index else ''}", index * (width + BETWEEN), width)
        _draw(figure, panel, scale)
        settings[f"xaxis{panel.side[1:]}"] = {
            **axis(palette),
            "domain": [panel.left, panel.left + width * (1 - NUMBERS / _panel_px(len(panels), shown))],
            "anchor": "y",
            "range": [low - 0.5, high],
            "zeroline": False,
            "nticks": 4,
        }
        one_whole = len({change.whole for change in shown}) == 1
        _head(figure, panel, shown[0].whole if one_whole else None, palette)
        _numbers(figure, panel, scale)
    names = {places[change]: escape(change.words, quote=False) for change in shown}
    heads = {line: f"<b>{escape(part)}</b>" for part, line in _heads(shown).items()}
    ticks = dict(sorted((names | heads).items()))
    height = TOP + AXIS + LEGEND + round(ROW * (lowest + 0.6))
    figure.update_layout(
        **layout(palette, height=height),
        **settings,
        margin={"l": room(list(ticks.values())), "r": 4, "t": TOP, "b": AXIS + LEGEND},
        legend={
            "orientation": "h",
            "y": 0,
            "yref": "container",
            "yanchor": "bottom",
            "x": 0,
            "xref": "container",
            "bgcolor": "rgba(0,0,0,0)",
        },
        yaxis={
            "range": [lowest, -0.6],
            "tickvals": list(ticks),
            "ticktext": list(ticks.values()),
            "showgrid": False,
            "zeroline": False,
            "ticks": "",
            "ticklabelstandoff": 4,
            "fixedrange": True,
            "tickfont": {"size": TEXT, "color": palette.ink},
        },
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


def _draw(figure: go.Figure, panel: _Panel, scale: _Scale) -> None:
    """The dots with their intervals, the ticks of single seeds, and the line of no change."""
    for kind, symbol in KINDS.items():
        figure.add_trace(_dots(panel, scale, kind, symbol))
    seeds = [
        (points, scale.rows[change])
        for change, gap in panel.gaps.items()
        if len(gap.seeds) > 1
        for points in gap.seeds
        if scale.low <= points <= scale.high
    ]
    figure.add_scatter(
        xaxis=panel.side,
        x=[points for points, _ in seeds],
        y=[row for _, row in seeds],
        mode="markers",
        marker={"symbol": "line-ns", "size": 9, "line": {"width": 1, "color": scale.palette.muted}},
        hoverinfo="skip",
        showlegend=False,
    )
    line = {"color": scale.palette.muted, "width": 1}
    figure.add_shape(type="line", xref=panel.side, yref="y", x0=0, x1=0, y0=-0.6, y1=scale.lowest, line=line)


def _dots(panel: _Panel, scale: _Scale, kind: str, symbol: str) -> go.Scatter:
    """The changes of one kind; what lies beyond the axis is a triangle at its end, without an interval."""
    gaps = {change: gap for change, gap in panel.gaps.items() if _kind(gap) == kind}
    within = [scale.low <= gap.points <= scale.high for gap in gaps.values()]
    drawn = list(zip(gaps.values(), within, strict=True))
    return go.Scatter(
        xaxis=panel.side,
        x=[min(max(gap.points, scale.low), scale.high) for gap in gaps.values()],
        y=[scale.rows[change] for change in gaps],
        mode="markers",
        error_x={
            "array": [gap.interval[1] - gap.points if inside else 0.0 for gap, inside in drawn],
            "arrayminus": [gap.points - gap.interval[0] if inside else 0.0 for gap, inside in drawn],
            "color": scale.colours[kind],
            "thickness": 1.5,
            "width": 3,
        },
        marker={
            "symbol": [symbol if inside else BEYOND[gap.points > 0] for gap, inside in drawn],
            "opacity": 1,  # marks of different sizes would be pale
            "size": [7 if inside else 10 for inside in within],
            "color": scale.colours[kind],
            "line": {"width": 2 if kind == "undecided" else 1, "color": scale.colours[kind]},
        },
        text=[_hover(panel.column, change, gap) for change, gap in gaps.items()],
        hoverinfo="text",
        showlegend=False,
    )


def _numbers(figure: go.Figure, panel: _Panel, scale: _Scale) -> None:
    """What each change comes to, at the right."""
    for change, gap in panel.gaps.items():
        figure.add_annotation(
            x=panel.left + panel.width,
            xref="paper",
            xanchor="right",
            y=scale.rows[change],
            yref="y",
            text=_signed(gap.points),
            showarrow=False,
            font={"size": TEXT, "color": scale.palette.ink if _kind(gap) != "undecided" else scale.palette.muted},
        )


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


def _legend(colours: dict[str, str]) -> list[go.Scatter]:
    """What the dots' colours and shapes say."""
    line = {kind: {"width": 2 if kind == "undecided" else 1, "color": colour} for kind, colour in colours.items()}
    return [
        go.Scatter(
            name=WORDS[kind],
            x=[None],
            y=[None],
            mode="markers",
            marker={"symbol": symbol, "size": 8, "color": colours[kind], "line": line[kind]},
        )
        for kind, symbol in KINDS.items()
    ]


def _head(figure: go.Figure, panel: _Panel, whole: str | None, palette: Palette) -> None:
    """A panel's name, and the accuracy of the whole method where all changes are of one."""
    said = f"<br>{_whole(panel.column, whole)}" if whole else ""
    figure.add_annotation(
        x=panel.left,
        xref="paper",
        xanchor="left",
        y=1,
        yref="paper",
        yanchor="bottom",
        yshift=4,
        align="left",
        text=f"<b>{escape(panel.column.name)}</b>{said}",
        showarrow=False,
        font={"size": TEXT, "color": palette.ink},
    )


def _finding(panels: Sequence[Any], changes: Sequence[Any]) -> str:
    """Of each kind of parents the change that costs or brings most."""
    words = []
    for column, of_column in panels:
        known = {change: gap for change, gap in of_column.items() if gap and change in changes}
        most = max(known, key=lambda change: abs(known[change].points))
        words.append(f"{column.name}: {most.part}, {most.words} ({_signed(known[most].points)} points)")
    return f"What changes most: {'; '.join(words)}."
