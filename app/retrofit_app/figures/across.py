"""The same rows in several columns of a table of the paper: how they change from one to the next, in the paper and here."""

from collections.abc import Sequence
from html import escape
from textwrap import wrap
from typing import Any

from .drawing import BELOW, Trace, edge, note, plot, rows, scatter
from .palette import SHAPES, Palette
from .picture import Picture, listing
from .quantities import Quantity, quantity

#: Height of the panels, of an entry of the legend, of the panels' titles, and of a line of a column's name, in px.
PANEL, ENTRY, TITLE, LINE = 280, 21, 30, 16
ROOM = 4  # above and below the lines, in points of accuracy
LETTERS, IN_ALL = 12, 48  # of a column's name in a line, and of all names side by side in a panel


def across(columns: Sequence[Any], names: Sequence[str], palette: Palette) -> Picture:
    """A line for each row over the columns: the paper's at the left, ours at the right, on one axis.

    Args:
        columns: `ReproducedColumn`s of one metric, in their order.
        names: rows; where one of them has no number, or a column does not have it, its line has a gap.
    Raises:
        ValueError: no number of ours, no column, or a row that none of the columns has.
    """
    titles = [column.name for column in columns]
    lines = {name: _lines(columns, name) for name in names}
    if not any(_known(line) for of_row in lines.values() for line in of_row):
        table = columns[0].table if columns else "no table"
        raise ValueError(f"nothing is measured of these rows of {table}, {listing(titles)}: there is nothing to draw.")
    kind = quantity(columns[0].block.metric)
    traces: list[Trace] = []
    values, entries = [], 0
    for index, (name, of_row) in enumerate(lines.items()):
        papers = [line.paper.mean if line and line.paper else None for line in of_row]
        ours = [line.mean if line else None for line in of_row]
        traces += _lines_of(name, titles, papers, ours, kind, (palette.parent(index), SHAPES[index % len(SHAPES)]))
        values += [value for value in (*papers, *ours) if value is not None]
        entries += any(value is not None for value in (*papers, *ours))
    badges = listing(list(dict.fromkeys(column.badge for column in columns if column.lines)))
    heads = {0.0: "paper", 0.54: f"ours ({badges})"}
    # What the panels are, above their left ends.
    head = {"xref": "paper", "xanchor": "left", "yref": "paper", "yanchor": "bottom", "yshift": 6}
    notes = [note(escape(text), x, 1, palette.muted, **head) for x, text in heads.items()]
    names_of = [_in_lines(title, min(LETTERS, IN_ALL // len(titles))) for title in titles]
    bottom = 24 + LINE * max(2, *(name.count("<br>") + 1 for name in names_of)) + ENTRY * entries
    columns_axis = rows(
        palette,
        autorange=True,
        type="category",
        categoryarray=titles,
        categoryorder="array",
        tickvals=titles,
        ticktext=names_of,
        tickangle=0,
        anchor="y",
    )
    axis = kind.axis(values)
    if kind.whole is not None:  # lines are read against each other: the axis reaches as far as they do
        low, high = kind.whole
        axis |= {"range": [max(low, min(values) - ROOM), min(high, max(values) + ROOM)]}
    figure = plot(
        palette,
        traces,
        TITLE + PANEL + bottom,
        (56, 36, TITLE, bottom),
        legend={**BELOW, "tracegroupgap": 0},
        annotations=notes,
        xaxis={**columns_axis, "domain": [0, 0.46]},
        xaxis2={**columns_axis, "domain": [0.54, 1]},
        yaxis=axis,
    )
    finding = _finding(lines, titles, kind)
    return Picture(
        figure, f"Lines of {kind.name} over {listing(titles)}, the paper's and ours ({badges}). {finding}", finding
    )


def _lines_of(
    name: str,
    titles: Sequence[str],
    papers: Sequence[float | None],
    ours: Sequence[float | None],
    kind: Quantity,
    look: tuple[str, str],
) -> list[Trace]:
    """A row in both panels, with one entry of the legend.

    Args:
        look: colour and symbol.
    """
    colour, symbol = look
    sides = [side for side in (("x", papers), ("x2", ours)) if any(value is not None for value in side[1])]
    return [
        {
            **scatter(titles, numbers, "lines+markers", name=escape(name), xaxis=side, legendgroup=name),
            "showlegend": index == 0,
            "line": edge(colour, 2, "solid" if "F-" in name else "dot"),
            "marker": {"symbol": symbol, "size": 9, "color": colour},
            "customdata": ["" if value is None else kind.words(value) for value in numbers],
            "hovertemplate": f"{escape(name)}, %{{x}}: %{{customdata}}<extra></extra>",
        }
        for index, (side, numbers) in enumerate(sides)
    ]


def _in_lines(title: str, letters: int) -> str:
    """A column's name in short lines."""
    parts = title.replace(", ", ",\n").replace(" to ", "\nto ").split("\n")
    return "<br>".join(escape(line) for part in parts for line in wrap(part, letters, break_on_hyphens=False))


def _lines(columns: Sequence[Any], name: str) -> list[Any]:
    """A row in each column; None where a column does not have it."""
    rows = [{line.row: line for line in column.block.lines} for column in columns]
    if columns and not any(name in of_column for of_column in rows):
        columns[0].line(name)  # refuses it, with what there is
    return [of_column.get(name) for of_column in rows]


def _known(line: Any) -> bool:
    return line is not None and line.mean is not None


def _finding(lines: dict[str, list[Any]], titles: Sequence[str], kind: Any) -> str:
    """The first row that is measured, column by column."""
    name, of_row = next((name, of_row) for name, of_row in lines.items() if any(_known(line) for line in of_row))
    known = [(title, line) for title, line in zip(titles, of_row, strict=True) if _known(line)]
    ours = [
        f"{title} {kind.words(line.mean)}" + (f" (paper {kind.words(line.paper.mean)})" if line.paper else "")
        for title, line in known
    ]
    return f"{name}: {listing(ours)}."
