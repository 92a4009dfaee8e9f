"""Rows of one of the paper's tables across several columns: how they change, in the paper and here."""

from collections.abc import Sequence
from html import escape
from textwrap import wrap
from typing import Any

import pandas as pd
import plotly.express as px

from .drawing import faceted
from .palette import SHAPES, Palette
from .picture import Picture
from .quantities import quantity
from .words import listing

HEIGHT, ENTRY, LINE = 330, 21, 16  # px: panels with titles and axes, a legend's entry, a line of a column's name
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
    titles, kind = [column.name for column in kept], quantity(kept[0].metric)
    headings = {title: _in_lines(title, min(LETTERS, IN_ALL // len(titles))) for title in titles}
    found = [
        (column, line) for column in kept for line in column.all_lines if line.row in names and line.mean is not None
    ]
    badges = listing(list(dict.fromkeys(line.badge or column.badge for column, line in found)))
    rows = []
    for column in kept:
        lines = {line.row: line for line in column.all_lines}
        for name in names:
            line = lines.get(name)
            for side in ("paper", f"ours ({badges})"):
                value = line and (line.mean if side != "paper" else line.paper and line.paper.mean)
                at = f" ({line.badge})" if side != "paper" and line and line.badge else ""
                tip = "" if value is None else kind.words(value) + at
                rows.append(
                    {"column": headings[column.name], "row": escape(name), "side": side, kind.name: value, "tip": tip}
                )
    frame = pd.DataFrame(rows)
    frame = frame.groupby(["row", "side"], sort=False).filter(lambda each: each[kind.name].notna().any())
    figure = px.line(
        frame,
        x="column",
        y=kind.name,
        color="row",
        symbol="row",
        facet_col="side",
        facet_col_spacing=0.08,
        markers=True,
        line_dash="row",
        line_dash_map={escape(name): "solid" if "F-" in name else "dot" for name in names},
        symbol_sequence=SHAPES,
        color_discrete_sequence=[palette.parent(index) for index in range(len(names))],
        hover_data={"tip": True, kind.name: False, "side": False},
        labels={"column": along, "tip": "", "row": ""},
    )
    figure.for_each_annotation(lambda note: note.update(text=note.text.removeprefix("side="), font_color=palette.muted))
    figure.update_traces(marker_size=9)
    lines = max(words.count("<br>") + 1 for words in headings.values())
    below = LINE * lines + (30 if along else 6) + ENTRY * len(set(frame["row"])) + 12
    faceted(figure, palette, HEIGHT + below, l=70, r=36, t=30, b=below)
    figure.update_layout(legend={"orientation": "v", "x": 0, "xref": "paper"})
    figure.update_xaxes(showgrid=False)
    figure.update_yaxes(ticksuffix=kind.unit)
    words = _names(titles)
    measured = {line.row for _, line in found}
    finding = _finding(found, next(name for name in names if name in measured), kind)
    return Picture(
        figure,
        f"Lines of {kind.name} over {words}, the paper's and ours ({badges}). {finding}",
        finding,
        title=f"{kept[0].entry.title}: {words}",
    )


def measured_in(columns: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """The columns in which we measured one of these rows.

    Raises:
        ValueError: no column has a row.
    """
    known = {line.row for column in columns for line in column.all_lines}
    for name in names:
        if columns and name not in known:
            columns[0].line(name)  # refuses, and lists the known rows
    return [
        column for column in columns if any(line.row in names and line.mean is not None for line in column.all_lines)
    ]


def _names(titles: Sequence[str]) -> str:
    """Names of columns in a row; a name such as "1x, 2x" has a comma of its own."""
    return "; ".join(titles) if any("," in title for title in titles) else listing(titles)


def _in_lines(title: str, letters: int) -> str:
    """A column's name in short lines."""
    parts = title.replace(", ", ",\n").replace(" to ", "\nto ").split("\n")
    return "<br>".join(escape(line) for part in parts for line in wrap(part, letters, break_on_hyphens=False))


def _finding(found: Sequence[tuple[Any, Any]], name: str, kind: Any) -> str:
    """A row, column by column."""
    ours = [
        f"{column.name} {kind.words(line.mean)}" + (f" (paper {kind.words(line.paper.mean)})" if line.paper else "")
        for column, line in found
        if line.row == name
    ]
    return f"{name}: {listing(ours)}."
