"""Rows of one of the paper's tables across several columns: how they change, in the paper and here."""

from collections.abc import Sequence
from html import escape
from textwrap import wrap
from typing import Any

from .drawing import BELOW, HEAD, Trace, drawn, edge, named, note, scatter
from .palette import SHAPES, Palette
from .picture import Picture
from .quantities import quantity
from .words import listing

#: Height of the panels, of an entry of the legend, of the panels' titles, and of a line of a column's name, in px.
PANEL, ENTRY, TITLE, LINE = 280, 21, 30, 16
ROOM = 4  # above and below the lines, in points of accuracy
LETTERS, IN_ALL = 12, 48  # letters of a column's name per line, and of all names in a panel


def across(columns: Sequence[Any], names: Sequence[str], palette: Palette, along: str = "") -> Picture:
    """A line for each row over the columns: the paper's on the left, ours on the right, on one axis.

    Args:
        columns: `ReproducedColumn`s of one metric, in order; those without a number of ours are left out.
        names: rows; where a column lacks the row or its number, the line has a gap.
        along: what the columns differ in, for the axes.
    Raises:
        ValueError: we measured nothing, there is no column, or no column has a row.
    """
    kept = measured_in(columns, names)
    if not kept:
        table, titles = columns[0].table if columns else "no table", [column.name for column in columns]
        raise ValueError(f"nothing is measured of these rows of {table}, {listing(titles)}: there is nothing to draw.")
    columns, titles = kept, [column.name for column in kept]
    lines = {name: _lines(columns, name) for name in names}
    kind = quantity(columns[0].metric)
    traces: list[Trace] = []
    values: list[float] = []
    for index, (name, of_row) in enumerate(lines.items()):
        sides = {
            "x": [line.paper.mean if line and line.paper else None for line in of_row],
            "x2": [line.mean if line else None for line in of_row],
        }
        drawn_sides = [side for side, numbers in sides.items() if set(numbers) != {None}]
        for side in drawn_sides:
            numbers, colour = sides[side], palette.parent(index)
            trace = scatter(
                titles,
                numbers,
                "lines+markers",
                f"{escape(name)}, %{{x}}: %{{customdata}}",
                name=escape(name),
                xaxis=side,
                legendgroup=name,
                line=edge(colour, 2, "solid" if "F-" in name else "dot"),
                marker={"symbol": SHAPES[index % len(SHAPES)], "size": 9, "color": colour},
                customdata=[
                    "" if value is None else kind.words(value) + _at(line, side)
                    for line, value in zip(of_row, numbers, strict=True)
                ],
            )
            traces.append({**trace, "showlegend": side == drawn_sides[0]})
            values += [value for value in numbers if value is not None]
    shown = [
        (column, line)
        for of_row in lines.values()
        for column, line in zip(columns, of_row, strict=True)
        if _known(line)
    ]
    badges = listing(list(dict.fromkeys(line.badge or column.badge for column, line in shown)))
    heads = {0.0: "paper", 0.54: f"ours ({badges})"}  # above the panels' left ends
    headings = [_in_lines(title, min(LETTERS, IN_ALL // len(titles))) for title in titles]
    bottom = (
        24
        + LINE * max(2, *(words.count("<br>") + 1 for words in headings))
        + (TITLE if along else 0)
        + ENTRY * sum(trace["showlegend"] for trace in traces)
    )
    below = named(palette, type="category", categoryarray=titles, categoryorder="array", tickangle=0, anchor="y")
    below |= {
        "tickvals": titles,
        "ticktext": headings,
        "ticklabelstandoff": 4,
        "title": {"text": along, "standoff": 12},
    }
    axis = kind.axis(values)
    if kind.whole is not None:  # to compare lines, the axis covers just their range
        low, high = kind.whole
        axis |= {"range": [max(low, min(values) - ROOM), min(high, max(values) + ROOM)]}
    return drawn(
        palette,
        traces,
        TITLE + PANEL + bottom,
        f"Lines of {kind.name} over {_names(titles)}, the paper's and ours ({badges})",
        _finding(lines, titles, kind),
        title=f"{columns[0].setting.table.title}: {_names(titles)}",
        margin=(70, 36, TITLE, bottom),
        legend={**BELOW, "tracegroupgap": 0},
        annotations=[note(escape(text), x, 1, palette.muted, **HEAD, yshift=6) for x, text in heads.items()],
        xaxis={**below, "domain": [0, 0.46]},
        xaxis2={**below, "domain": [0.54, 1]},
        yaxis={**axis, "title": {"text": kind.name}},
    )


def _names(titles: Sequence[str]) -> str:
    """Names of columns in a row; a name such as "1x, 2x" has a comma of its own."""
    return "; ".join(titles) if any("," in title for title in titles) else listing(titles)


def measured_in(columns: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """The columns in which we measured one of these rows.

    Raises:
        ValueError: no column has a row.
    """
    every = [_lines(columns, name) for name in names]
    return [column for index, column in enumerate(columns) if any(_known(of_row[index]) for of_row in every)]


def _in_lines(title: str, letters: int) -> str:
    """A column's name in short lines."""
    parts = title.replace(", ", ",\n").replace(" to ", "\nto ").split("\n")
    return "<br>".join(escape(line) for part in parts for line in wrap(part, letters, break_on_hyphens=False))


def _lines(columns: Sequence[Any], name: str) -> list[Any]:
    """A row in each column; None if the column lacks it."""
    rows = [{line.row: line for line in column.all_lines} for column in columns]
    if columns and not any(name in of_column for of_column in rows):
        columns[0].line(name)  # refuses, and lists the known rows
    return [of_column.get(name) for of_column in rows]


def _known(line: Any) -> bool:
    return line is not None and line.mean is not None


def _at(line: Any, side: str) -> str:
    """The scale of our number, if it is not its column's."""
    return f" ({escape(line.badge)})" if side == "x2" and line.badge else ""


def _finding(lines: dict[str, list[Any]], titles: Sequence[str], kind: Any) -> str:
    """The first measured row, column by column."""
    name, of_row = next((name, of_row) for name, of_row in lines.items() if any(_known(line) for line in of_row))
    known = [(title, line) for title, line in zip(titles, of_row, strict=True) if _known(line)]
    ours = [
        f"{title} {kind.words(line.mean)}" + (f" (paper {kind.words(line.paper.mean)})" if line.paper else "")
        for title, line in known
    ]
    return f"{name}: {listing(ours)}."
