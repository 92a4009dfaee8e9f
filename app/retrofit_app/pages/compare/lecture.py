"""A lecture's slide on a comparison: runs side by side, whose rows are revealed one by one."""

from collections.abc import Callable, Sequence

import streamlit as st

from retrofit_app.figures import Palette, escaped
from retrofit_app.figures.booktable import Column, Line, Table
from retrofit_app.runs.compared import Group
from retrofit_app.shell.lectures import HIDDEN, Slide

from . import table

#: Table columns that fit on a projector.
OF_RUNS = (0, 1, 2, 3)


def of_runs(groups: Sequence[Group], order: str, palette: Palette) -> list[Slide]:
    """The compared runs and their references."""
    whole = table.side_by_side(groups, order)
    places = [index for index, line in enumerate(whole.lines) if line.cells and not line.is_reference]
    return [
        Slide(
            "runs",
            "How good is each of these networks, and which differences are clear?",
            escaped(" ".join(table.findings(groups))),
            len(places),
            _rows(whole, places, OF_RUNS, palette),
        )
    ]


def _rows(
    whole: Table, places: Sequence[int], columns: Sequence[int], palette: Palette
) -> Callable[[int, float], None]:
    """A function that draws some columns of a table.

    Args:
        places: lines in the order of revealing.
    """

    def draw(shown: int, _: float) -> None:
        hidden = set(places[shown:])
        lines = [
            Line((line.cells[0], *[HIDDEN] * (len(columns) - 1))) if index in hidden else _part(line, columns)
            for index, line in enumerate(whole.lines)
        ]
        few = tuple(Column(whole.columns[column].title, is_number=column > 0) for column in columns)
        st.html(Table(whole.name, few, tuple(lines)).html(palette))

    return draw


def _part(line: Line, columns: Sequence[int]) -> Line:
    """A line with some of its cells."""
    if not line.cells:
        return line
    best = frozenset(index for index, column in enumerate(columns) if column in line.best)
    return Line(tuple(line.cells[column] for column in columns), best, line.is_reference)
