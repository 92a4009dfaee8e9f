"""One of the paper's tables: its cells beside ours, the choice of rows, a cell's recipe, pictures, files."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from retrofit_app import widgets
from retrofit_app.figures import Palette, escaped
from retrofit_app.figures.paper.cells import cell_name, cells
from retrofit_app.runs import paper
from retrofit_app.runs.paper import FULLEST, SAME, Shown, Stamp
from retrofit_app.shell import lectures, picker
from retrofit_app.widgets import tables
from retrofit_app.widgets.choosing import choosing

from . import lecture, parameters, pictures, recipe, taking
from .parameters import KINDS, PAPER, Place, Rows

OTHERS = "Our networks, training or data differ from the paper's: compare which method is ahead, not the numbers. "
READING = (
    "≠: a difference between two methods has the other sign here, beyond its 95 % interval. ± are two standard errors from the "
    "paper's deviations; a bold difference is within them. Click a number for its recipe."
)
BADGED = " A word before a number is its scale, if that is not its column's."
AGREEING = "No difference between methods has the other sign here."
EMPTY = "No row of this table is left. Choose other families, or all rows."
NO_NUMBERS = "The paper prints no numbers here, so ours have no counterpart. Click a number for its recipe."


def one(stamp: Stamp, palette: Palette) -> None:
    """Draw the table that the address names."""
    names = paper.names()
    name, shown, place = asked(stamp)
    controls(names, shown)
    chosen = parameters.rows()
    columns = shown.at(place.scale)
    filters(shown, chosen)
    marked = {column.name: paper.contradicted(column) for column in columns}
    rows = rows_of(columns, chosen, {row for of_column in marked.values() for row in of_column})
    claim, measured = finding(columns)
    st.markdown("  \n".join(filter(None, [f"**{escaped(claim)}**" * bool(claim), escaped(measured)])))
    if rows:
        scales = scale_words(columns)
        seen = [column for column in columns if any(line.row in rows for line in column.all_lines)]
        choosing("paper-cells", cells(seen, rows, palette, scales, marked), parameters.to_cell)
        st.caption(escaped(reading(shown, columns)))
    else:
        widgets.why(AGREEING if chosen.disagreeing and not any(marked.values()) else EMPTY)
    taking.files(stamp, [name], place.scale, name)
    drawn = {
        name: [row for row in rows if row in of_column or not chosen.disagreeing] for name, of_column in marked.items()
    }
    pictures.pictures(shown, columns, place.scale, palette, drawn, chosen.disagreeing)
    if place.cell:
        recipe.dialog(shown, columns, place.cell, picker.choice().entries)


def asked(stamp: Stamp) -> tuple[str, Shown, Place]:
    """The table's name, the table, and the place in it."""
    name = parameters.table(paper.names())
    shown = tables.table(stamp, name)
    every = [cell_name(line.row, column.name) for column in shown.every for line in column.all_lines]
    return name, shown, parameters.place(list(shown.scales), every)


def spoken(stamp: Stamp, palette: Palette) -> bool:
    """Show the table's columns as a lecture; return whether there is anything to show."""
    name, shown, place = asked(stamp)
    slides = lecture.of_table(shown.at(place.scale), palette)
    if slides:
        lectures.show(paper.names()[name], slides)
    return bool(slides)


def controls(names: Mapping[str, str], shown: Shown) -> None:
    """Draw the choice of table and scale."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="paper-controls"):
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
            format_func=lambda scale: "the fullest of each row" if scale == FULLEST else shown.scales[scale],
            help=(
                "Which networks, training and samples replace the paper's. A column "
                "that is not measured at this scale is shown with each row at its fullest scale."
            ),
        )


def filters(shown: Shown, chosen: Rows) -> None:
    """Draw the choice of rows, if there is one."""
    lines = [line for column in shown.every for line in column.all_lines]
    printed = {line.row for line in lines if line.paper is not None}
    offered = {line.row for line in lines} if chosen.more or not printed else printed
    known = {*map(paper.family, offered), *chosen.families}
    if len(known) > 1:
        st.pills(
            "Only rows of",
            [kind for kind in KINDS if kind in known],
            **PAPER.control("families", tuple),
            selection_mode="multi",
            help="Families of methods. If none is chosen, all are shown.",
        )
    if not shown.has_paper:
        return
    with st.container(horizontal=True):
        if any(column.claims for column in shown.every):
            st.toggle(
                "Only what disagrees",
                **PAPER.control("disagreeing"),
                help="Rows whose difference to another one is clear here, and has the other sign than in the paper (≠).",
            )
        if {line.row for line in lines} > printed:
            st.toggle(
                "Rows that the paper lacks",
                **PAPER.control("more"),
                help="Controls, stronger forms of the baselines, and settings of ours.",
            )


def rows_of(columns: Sequence[Any], chosen: Rows, disagreeing: set[str]) -> list[str]:
    """The rows to show: the paper's in its order, then those it lacks."""
    table = columns[0].setting.table
    here = {line.row for column in columns for line in column.all_lines}
    printed = {line.row for column in columns for line in column.all_lines if line.paper is not None}
    return [
        row
        for row in dict.fromkeys((*table.paper_rows, *table.rows))
        if row in here
        and (row in printed or chosen.more or not printed or (chosen.disagreeing and row in disagreeing))
        and (row in disagreeing or not chosen.disagreeing)
        and (paper.family(row) in chosen.families or not chosen.families)
    ]


def scale_words(columns: Sequence[Any]) -> dict[str, str]:
    """Column -> how it differs from the paper; "" if all differ in the same way."""
    words = {column.name: paper.differences(column) if column.lines else "not measured yet" for column in columns}
    return words if len(set(words.values())) > 1 else dict.fromkeys(words, "")


def finding(columns: Sequence[Any]) -> tuple[str, str]:
    """How many of the paper's claims hold; then how ours differs from it, and how many of its numbers are measured."""
    from retrofit_core.experiments.report import summarised, verdicts
    from retrofit_core.experiments.report_words import apart_words

    same = not any(scale_words(columns).values()) and any(column.lines for column in columns)
    sentences = [f"Ours: {paper.differences(columns[0])}."] if same else []
    summary = summarised([each for column in columns for each in column.scales or (column,)])
    if not summary.numbers:
        return "", " ".join(sentences)
    words = (
        f"{summary.measured()} of the {summary.numbers} numbers that the paper prints here are measured"
        f"{'' if any(column.scales for column in columns) else ' at this scale'}"
    )
    if any(column.lines and column.setting.scale.name == "smoke" for column in columns):
        words += ", not counting those that say nothing of accuracy"
    agreed, undecided, contradicted = verdicts(summary.decided())
    decided = agreed + undecided + contradicted
    claim = f"Of {decided} claimed differences {agreed} have the paper's sign, {contradicted} the other one."
    return claim if decided else "", " ".join([*sentences, f"{words}.", *filter(None, [apart_words(summary)])])


def reading(shown: Shown, columns: Sequence[Any]) -> str:
    """How to read the table."""
    if not shown.has_paper:
        return NO_NUMBERS
    badged = any(line.badge for column in columns for line in column.all_lines)
    return f"{'' if {*map(paper.differences, columns)} == {SAME} else OTHERS}{READING}{BADGED if badged else ''}"
