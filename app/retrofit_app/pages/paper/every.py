"""All tables: how many of the paper's numbers are measured, and how many of its claims hold."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from retrofit_app import widgets
from retrofit_app.figures import Palette, escaped
from retrofit_app.figures.booktable import MINUS, Column, Line, Table
from retrofit_app.figures.paper.totals import totals
from retrofit_app.runs import paper
from retrofit_app.runs.paper import FULLEST, Stamp
from retrofit_app.shell import lectures
from retrofit_app.widgets import tables
from retrofit_app.widgets.choosing import choosing

from . import lecture, parameters
from .one import files

READING = (
    "A claim is a difference between two methods in the paper. It is agreed if ours has its sign, contradicted if ours has the "
    "opposite one, and undecided if our 95 % interval contains 0. Each counts once, at its fullest measured scale. A method with "
    "several scores counts with its best one: in brackets ours, in the paper maybe another."
)

FAILED = (
    Column("claim", "Which row is ahead of which in the paper.", is_number=False),
    Column("paper", "Points, with their standard deviation."),
    Column("ours", "Points."),
    Column("95 %", "Our interval."),
    Column("measured with", "Our scale, and whether our interval covers test images alone.", is_number=False),
)
NOISE = "The paper's noise explains a claim whose difference lies within two of its deviations, from 0 and from our interval."
CLAIMS = "Claims of the paper with the other sign here"


def every(stamp: Stamp, palette: Palette) -> None:
    """Draw the report's summary, whose tables can be opened."""
    from retrofit_core.experiments.report import summary_of, verdicts

    names, columns = paper.names(), columns_of(stamp)
    summary = _of_all(columns)
    agreed, undecided, contradicted = verdicts(decided := summary.decided())
    st.markdown(
        f"**Of {len(decided)} comparable claims of the paper {agreed} agreed, {undecided} undecided, {contradicted} "
        f"contradicted.**  \nOf {summary.numbers} numbers that the paper prints, {summary.measured()} are measured."
    )
    of_each = {name: summary_of(of_table) for name, of_table in columns.items()}
    choosing("paper-totals", totals(summary, of_each, names, palette), parameters.to_table)
    if widgets.unfolds("How to read this", "paper-reading", "What a claim is."):
        st.caption(escaped(READING))
    tables_of = [
        [line for name in names for line in failed(name, names[name], summary, noise)] for noise in (False, True)
    ]
    beyond, within = (Table(CLAIMS, FAILED, tuple(lines)) for lines in tables_of)
    if any(tables_of):
        st.header("The claims that failed here", anchor=False)
        counts = [sum(not line.heading for line in lines) for lines in tables_of]
        st.markdown(
            f"**{counts[0]} that the paper's noise does not explain.** Causes that we tested are in docs/findings.md.",
            help=NOISE,
        )
    with st.container(key="paper-failed"):
        if beyond.lines:
            st.html(beyond.html(palette))
        if within.lines:
            with st.expander(f"{counts[1]} more that the paper's noise explains"):
                st.html(within.html(palette))
    files(stamp, list(names), FULLEST, "all-tables")


def failed(name: str, title: str, summary: Any, noise: bool) -> list[Line]:
    """A table's contradicted claims under its title, within or beyond the paper's own noise."""
    lines = [
        Line(
            (
                f"{claim.column}: {sides}",
                *(number.replace("-", MINUS) for number in numbers),
                f"{count.badge}{', one seed' * (claim.seeds == 1)}",
            )
        )
        for count in summary.counts
        for claim in count.claims
        if count.table == name and claim.verdict == "contradicted" and is_noise(claim) is noise
        for sides, *numbers in [claim.words[:4]]
    ]
    return [Line((), heading=title), *lines] if lines else []


def is_noise(claim: Any) -> bool:
    """Whether the paper's difference is within two of its deviations of 0 and of ours."""
    low, high = claim.interval
    return claim.is_noise and low - 2 * claim.deviation <= claim.paper <= high + 2 * claim.deviation


def columns_of(stamp: Stamp) -> dict[str, Sequence[Any]]:
    """Each table's columns; keeps a single table's parameters for later."""
    parameters.table(names := paper.names())
    return {name: tables.table(stamp, name).every for name in names}


def spoken(stamp: Stamp, palette: Palette) -> bool:
    """Show the summary as a lecture; return whether there is anything to show."""
    slides = lecture.of_all(_of_all(columns_of(stamp)), palette)
    if slides:
        lectures.show("All tables of the paper", slides)
    return bool(slides)


def _of_all(columns: Mapping[str, Sequence[Any]]) -> Any:
    from retrofit_core.experiments.report import summary_of

    return summary_of([column for of_table in columns.values() for column in of_table])
