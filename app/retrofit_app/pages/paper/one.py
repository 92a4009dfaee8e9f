"""One of the paper's tables: its cells beside ours, the choice of rows, a cell's recipe, files."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from retrofit_app.figures import Palette, escaped
from retrofit_app.figures.paper.cells import cell_name, cells
from retrofit_app.runs import paper
from retrofit_app.runs.paper import Stamp
from retrofit_app.widgets import tables
from retrofit_app.widgets.choosing import choosing

from . import parameters, recipe
from .parameters import PAPER

READING = (
    "≠: a difference between two methods has the other sign here, beyond its 95 % interval. Our networks, training or data may "
    "differ from the paper's: compare which method is ahead, not the numbers. A word before a number is its scale, if that is "
    "not its column's. Click a number for its recipe. Rows that the paper lacks are in the notebooks and the download."
)
NO_NUMBERS = "The paper prints no numbers here, so ours have no counterpart. Click a number for its recipe."


def one(stamp: Stamp, palette: Palette) -> None:
    """Draw the table that the address names."""
    names = paper.names()
    name = parameters.table(names)
    shown = tables.table(stamp, name)
    cell = parameters.cell([cell_name(line.row, each.name) for each in shown.every for line in each.all_lines])
    st.selectbox(
        "Table or figure of the paper",
        list(names),
        **PAPER.control("table", change=parameters.to_table),
        width=520,
        format_func=names.__getitem__,
        help="The last ones are ours: the paper does not have them.",
    )
    columns = shown.columns
    marked = {column.name: paper.contradicted(column) for column in columns}
    rows = rows_of(columns)
    claim, measured = finding(columns)
    st.markdown("  \n".join(filter(None, [f"**{escaped(claim)}**" * bool(claim), escaped(measured)])))
    seen = [column for column in columns if any(line.row in rows for line in column.all_lines)]
    choosing("paper-cells", cells(seen, rows, palette, scale_words(columns), marked), parameters.to_cell)
    st.caption(READING if shown.has_paper else NO_NUMBERS)
    files(stamp, [name], name)
    if cell:
        recipe.dialog(columns, cell)


def files(stamp: Stamp, names: list[str], stem: str) -> None:
    """Draw the button for the report of some tables, written when pressed."""
    from retrofit_core.experiments.report import markdown

    def content() -> bytes:
        return markdown(paper.report(tables.results(stamp)[0], names)).encode()

    st.download_button(
        "Download the tables",
        content,
        f"paper-{stem}.md",
        on_click="ignore",
        key=f"take-{stem}",
        icon=":material/download:",
        help="Markdown, all columns, and how many claims hold.",
    )


def rows_of(columns: Sequence[Any]) -> list[str]:
    """The rows to show: the paper's in its order, or ours if it prints none."""
    table = columns[0].entry
    lines = [line for column in columns for line in column.all_lines]
    here, printed = {line.row for line in lines}, {line.row for line in lines if line.paper is not None}
    rows = [row for row in dict.fromkeys((*table.paper_rows, *table.rows)) if row in here]
    return [row for row in rows if row in printed or not printed]


def scale_words(columns: Sequence[Any]) -> dict[str, str]:
    """Column -> its scale; "" if all have the same."""
    words = {column.name: column.badge if column.lines else "not measured yet" for column in columns}
    return words if len(set(words.values())) > 1 else dict.fromkeys(words, "")


def finding(columns: Sequence[Any]) -> tuple[str, str]:
    """How many of the paper's claims hold; then how ours differs from it, and how many of its numbers are measured."""
    from retrofit_core.experiments.report import summary_of, verdicts

    same = not any(scale_words(columns).values()) and any(column.lines for column in columns)
    ours = f"Ours: {columns[0].differences}. " if same else ""
    summary = summary_of([each for column in columns for each in column.scales or (column,)])
    if not summary.numbers:
        return "", ours
    agreed, _, contradicted = verdicts(decided := summary.decided())
    claim = f"Of {len(decided)} claimed differences {agreed} have the paper's sign, {contradicted} the other one."
    words = f"{summary.measured()} of the {summary.numbers} numbers that the paper prints here are measured."
    return claim if decided else "", ours + words
