"""Do the paper's numbers hold? Each of its tables beside what is measured here, and how every number came about."""

from typing import Any

import streamlit as st

from retrofit_app import widgets
from retrofit_app.figures import escaped
from retrofit_app.figures.paper.cells import cell_name, cells
from retrofit_app.runs import paper
from retrofit_app.runs.paper import FULLEST, Shown
from retrofit_app.shell import picker
from retrofit_app.widgets import tables
from retrofit_app.widgets.choosing import choosing

from . import parameters, recipe
from .parameters import KINDS, PAPER, Place, Rows

SMALLER = (
    "Ours are smaller networks or were trained for a shorter time: their numbers lie lower, and what can hold is which method is "
    "ahead. "
)
READING = (
    "≠: a difference between two methods has the other sign here, beyond its 95 % interval. ± are two standard errors from the "
    "paper's deviations; a bold difference lies within them. Click a number for its recipe."
)


def page() -> None:
    """The table that the address names."""
    palette = widgets.palette()
    with st.container(key="heading"):
        st.title("Do the paper's numbers hold?", anchor=False)
    stamp = paper.stamp()
    sources(stamp)
    names = paper.names()
    name = parameters.table(names)
    shown = tables.table(stamp, name)
    every = [cell_name(line.row, column.name) for column in shown.every for line in column.block.lines]
    place = parameters.place(list(shown.scales), every)
    controls(names, shown, place)
    chosen = parameters.rows()
    filters(shown)
    columns = shown.at(place.scale)
    marked = {column.name: paper.contradicted(column) for column in columns}
    rows = rows_of(columns, chosen, {row for of_column in marked.values() for row in of_column})
    if not rows:
        widgets.why("No row of this table is left. Choose other families, or all rows.")
        return
    scales = {column.name: paper.differences(column) if column.lines else "not measured yet" for column in columns}
    if sentence := finding(columns):
        st.markdown(f"**{escaped(sentence)}**")
    choosing("paper-cells", cells(columns, rows, palette, scales, marked), parameters.to_cell)
    st.caption(escaped(reading(shown, columns)))
    if place.cell:
        recipe.dialog(columns, place.cell, picker.choice().entries)


def sources(stamp: paper.Stamp) -> None:
    """Where our numbers come from, where some are missing."""
    bundle, problems = tables.results(stamp)
    for problem in problems:
        st.warning(escaped(problem))
    if not bundle.results:
        widgets.why(
            "Nothing is measured here. The project's own results are not part of an installed package: take the folder "
            "benchmarks/results/experiments from its repository, and start retrofit app --results FOLDER. Or measure a table "
            "yourself: each cell has its command."
        )


def controls(names: dict[str, str], shown: Shown, place: Place) -> None:
    """Which table, and at which scale."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.selectbox(
            "Table or figure of the paper",
            list(names),
            **PAPER.control("table", change=parameters.to_table),
            format_func=names.__getitem__,
            help="The last ones are ours: the paper does not have them.",
        )
        st.selectbox(
            "Scale",
            [FULLEST, *shown.scales],
            **PAPER.control("scale"),
            format_func=lambda scale: "the fullest of each column" if scale == FULLEST else shown.scales[scale],
            help="Ours are smaller than the paper's: which networks, training and samples stand in place of its own. A column "
            "that is not measured at this scale is shown at its fullest.",
        )


def filters(shown: Shown) -> None:
    """Which rows."""
    known = {paper.family(line.row) for column in shown.every for line in column.block.lines}
    st.pills(
        "Only rows of",
        [kind for kind in KINDS if kind in known],
        **PAPER.control("families", tuple),
        selection_mode="multi",
        help="Families of methods; none chosen: all of them.",
    )
    with st.container(horizontal=True):
        st.toggle(
            "Only what disagrees",
            **PAPER.control("disagreeing"),
            help="Rows of differences between two methods that are clear here, and have the other sign than in the paper (≠).",
        )
        st.toggle(
            "Rows that the paper lacks",
            **PAPER.control("more"),
            help="Controls, stronger forms of the baselines, and settings of ours.",
        )


def rows_of(columns: list[Any], chosen: Rows, disagreeing: set[str]) -> list[str]:
    """The rows to show: the paper's in its order, then those that it lacks."""
    table = columns[0].setting.table
    here = {line.row for column in columns for line in column.block.lines}
    printed = set(table.paper_rows)
    return [
        row
        for row in dict.fromkeys((*table.paper_rows, *table.rows))
        if row in here
        and (row in printed or chosen.more or not printed or (chosen.disagreeing and row in disagreeing))
        and (row in disagreeing or not chosen.disagreeing)
        and (paper.family(row) in chosen.families or not chosen.families)
    ]


def finding(columns: list[Any]) -> str:
    """How many of the paper's numbers are measured, and how many of its claims hold; "" where it prints none."""
    from retrofit_core.experiments.summary import verdicts

    lines = [line for column in columns for line in column.block.lines if line.paper is not None]
    if not lines:
        return ""
    words = f"{sum(line.mean is not None for line in lines)} of the {len(lines)} numbers that the paper prints here are measured"
    agreed, undecided, contradicted = verdicts(claim for column in columns for claim in column.block.claims)
    if decided := agreed + undecided + contradicted:
        words += (
            f"; of {decided} differences between methods that can be compared, {agreed} have the paper's sign, {contradicted} "
            f"the other one, and {undecided} are undecided"
        )
    return f"{words}."


def reading(shown: Shown, columns: list[Any]) -> str:
    """How to read the table."""
    if not shown.has_paper:
        return "The paper prints no numbers here: ours stand beside nothing. Click a number for its recipe."
    return f"{'' if all(map(paper.is_as_in_the_paper, columns)) else SMALLER}{READING}"
