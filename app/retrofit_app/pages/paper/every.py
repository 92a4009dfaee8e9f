"""All tables: five questions on the method, and how many of the paper's claims hold."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import Palette, escaped
from retrofit_app.figures.paper.questions import QUESTIONS, answer, answer_words, question_dots
from retrofit_app.figures.paper.totals import totals
from retrofit_app.runs import paper
from retrofit_app.runs.paper import Stamp
from retrofit_app.widgets import tables
from retrofit_app.widgets.choosing import choosing

from . import parameters
from .one import files

READING = (
    "A claim is a difference between two methods in the paper. It is agreed if ours has its sign, contradicted if ours has the "
    "opposite one, and undecided if our 95 % interval contains 0. Each counts once, at its fullest measured scale. A method with "
    "several scores counts with its best one: in brackets ours, in the paper maybe another. A question's plot has a row a "
    "column, with our method that leads most in the paper."
)


def every(stamp: Stamp, palette: Palette) -> None:
    """Draw five questions and the report's summary, whose tables can be opened."""
    from retrofit_core.experiments.report import summary_of, verdicts

    names, columns = paper.names(), columns_of(stamp)
    summary = _of_all(columns)
    agreed, undecided, contradicted = verdicts(decided := summary.decided())
    st.markdown(
        f"**Of {len(decided)} comparable claims of the paper {agreed} agreed, {undecided} undecided, {contradicted} "
        f"contradicted.**  \nOf {summary.numbers} numbers that the paper prints, {summary.measured()} are measured."
    )
    with st.expander("How to read this"):
        st.caption(escaped(READING))
    origin = f"All tables of the paper; retrofit-workbench {runs.library()}"
    places = [place for _ in range(3) for place in st.columns(2, gap="medium")]  # in this order on a phone, too
    for (name, question), place in zip(QUESTIONS.items(), places, strict=False):
        claims = answer(question, summary)
        heading = f"**{question.words}** {escaped(answer_words(claims))}"
        with place:
            if claims:
                picture = question_dots(question, claims, palette)
                widgets.chart(f"paper-{name}", picture, origin, heading=heading, below="")
            else:
                st.markdown(heading)
    st.header("Table by table", anchor=False)
    of_each = {name: summary_of(of_table) for name, of_table in columns.items()}
    choosing("paper-totals", totals(summary, of_each, names, palette), parameters.to_table)
    if contradicted:
        st.header("The claims that failed here", anchor=False)
        st.markdown("\n".join(f"- {escaped(line)}" for line in failed(decided)))
        st.caption("Causes that we tested are in docs/findings.md. Each claim is in its table.")
    files(stamp, list(names), "all-tables")


def failed(claims: Sequence[Any]) -> list[str]:
    """The contradicted claims in one line an opponent, those with most first."""
    contradicted, all_ = Counter[str](), Counter[str]()
    for claim in claims:
        score = f"{claim.left.partition(', ')[2]} against " if ", " in claim.left else "our methods against "
        against = score + (claim.right.partition(", ")[2] or claim.right)
        all_[against] += 1
        contradicted[against] += claim.verdict == "contradicted"
    return [f"{against}: {count} of {all_[against]}" for against, count in contradicted.most_common() if count]


def columns_of(stamp: Stamp) -> dict[str, Sequence[Any]]:
    """Each table's columns; keeps a single table's parameters for later."""
    parameters.table(names := paper.names())
    return {name: tables.table(stamp, name).every for name in names}


def _of_all(columns: Mapping[str, Sequence[Any]]) -> Any:
    from retrofit_core.experiments.report import summary_of

    return summary_of([column for of_table in columns.values() for column in of_table])
