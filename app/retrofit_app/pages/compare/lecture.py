"""A lecture's slides on a comparison: runs side by side, or a leaderboard, whose rows are revealed one by one."""

from collections.abc import Callable, Sequence

import streamlit as st

from retrofit_app import runs
from retrofit_app.figures import Palette, escaped, listing
from retrofit_app.figures.booktable import Column, Line, Table
from retrofit_app.runs.compared import Group
from retrofit_app.runs.leaderboards import Leaderboard
from retrofit_app.shell.lectures import HIDDEN, Slide

from . import ranking, table

#: Table columns that fit on a projector.
OF_RUNS, OF_BOARD = (0, 1, 2, 3), (0, 1, 2, 5)


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


def of_board(leaderboard: Leaderboard, entry: runs.Entry, refusals: dict[str, str], palette: Palette) -> list[Slide]:
    """The leaderboard, from last place to first; no slide until two networks are ranked."""
    rows = ranking.rows(leaderboard, entry, refusals)
    ranked = [row for row in rows if row.rank]
    if len(ranked) < 2:
        return []
    whole = ranking.table(leaderboard, entry, rows)
    first = Table(whole.name, whole.columns, whole.lines[: len(ranked)])
    names = sorted(row.name for row in ranked)
    return [
        Slide(
            "leaderboard",
            f"Who is first? In the race are {escaped(listing(names))}.",
            escaped(ranking.finding(rows)),
            len(ranked),
            _rows(first, list(reversed(range(len(ranked)))), OF_BOARD, palette, names_too=True),
        )
    ]


def _rows(
    whole: Table, places: Sequence[int], columns: Sequence[int], palette: Palette, names_too: bool = False
) -> Callable[[int, float], None]:
    """A function that draws some columns of a table.

    Args:
        places: lines in the order of revealing.
        names_too: hide the names of hidden lines' networks, too.
    """

    def draw(shown: int, _: float) -> None:
        hidden = set(places[shown:])
        lines = [
            _masked(line, names_too) if index in hidden else _part(line, columns)
            for index, line in enumerate(whole.lines)
        ]
        few = tuple(Column(whole.columns[column].title, is_number=column > 0) for column in columns)
        st.html(Table(whole.name, few, tuple(lines)).html(palette))

    def _masked(line: Line, names_too: bool) -> Line:
        name = f"{line.cells[0].partition('.')[0]}. {HIDDEN}" if names_too else line.cells[0]
        return Line((name, *[HIDDEN] * (len(columns) - 1)))

    return draw


def _part(line: Line, columns: Sequence[int]) -> Line:
    """A line with some of its cells."""
    if not line.cells:
        return line
    best = frozenset(index for index, column in enumerate(columns) if column in line.best)
    return Line(tuple(line.cells[column] for column in columns), best, line.is_reference)
