"""All tables: how many of the paper's numbers are measured, and how many of its claims hold."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from retrofit_app.figures import Palette, escaped
from retrofit_app.figures.paper.totals import totals
from retrofit_app.runs import paper
from retrofit_app.runs.paper import FULLEST, Stamp
from retrofit_app.shell import lectures
from retrofit_app.widgets import tables
from retrofit_app.widgets.choosing import choosing

from . import lecture, parameters, taking

READING = (
    "A claim is a difference between two methods in the paper. It is agreed if ours has its sign, contradicted if ours has the "
    "opposite one, and undecided if our 95 % interval contains 0. Each counts once, at its fullest measured scale."
)

PAPERS = "in the paper's settings (given parents have a size and a training of their own)"


def every(stamp: Stamp, palette: Palette) -> None:
    """Draw the report's summary, whose tables can be opened."""
    from retrofit_core.experiments.report import summarised

    names, columns = paper.names(), known(stamp)
    summary = _of_all(columns)
    st.markdown("  \n".join(f"**{escaped(sentence)}**" for sentence in finding(summary)))
    of_each = {name: summarised(of_table) for name, of_table in columns.items()}
    choosing("paper-totals", totals(summary, of_each, names, palette), parameters.to_table)
    st.caption(escaped(f"{READING} {scales(summary)}"))
    taking.files(stamp, list(names), FULLEST, "all-tables")


def known(stamp: Stamp) -> dict[str, Sequence[Any]]:
    """Each table's columns; keeps a single table's parameters for later."""
    parameters.table(names := paper.names())
    return {name: tables.table(stamp, name).every for name in names}


def spoken(stamp: Stamp, palette: Palette) -> bool:
    """Show the summary as a lecture; return whether there is anything to show."""
    slides = lecture.of_all(_of_all(known(stamp)), palette)
    if slides:
        lectures.show("All tables of the paper", slides)
    return bool(slides)


def _of_all(columns: Mapping[str, Sequence[Any]]) -> Any:
    from retrofit_core.experiments.report import summarised

    return summarised([column for of_table in columns.values() for column in of_table])


def finding(summary: Any) -> list[str]:
    """How many of the paper's numbers are measured, and how many of its claims hold; then what does not count."""
    from retrofit_core.experiments.report import verdicts
    from retrofit_core.experiments.report_words import apart_words

    decided = summary.decided()
    agreed, undecided, contradicted = verdicts(decided)
    return [
        f"Of {summary.numbers} numbers that the paper prints, {summary.measured()} are measured.",
        f"Of its {summary.claims} claims {len(decided)} can be compared: {agreed} agreed, {undecided} undecided, "
        f"{contradicted} contradicted.",
        *filter(None, [apart_words(summary)]),
    ]


def scales(summary: Any) -> str:
    """How much is measured at each scale, and what the scale is."""
    from retrofit_core.experiments.scales import SAYING, SCALES

    sentences, before = [], (0, 0)
    for name in SAYING:
        reached = summary.measured(name), len(summary.decided(name))
        if reached != before:
            new = [now - then for now, then in zip(reached, before, strict=True)]
            words = f"at the scale {name} ({SCALES[name].sentence})"
            settings = PAPERS if name == "paper" else words
            sentences.append(f"{new[0]} numbers and {new[1]} claims are measured {settings}.")
        before = reached
    single = sum(claim.seeds == 1 for claim in summary.decided())
    if single:
        sentences.append(f"{single} claims have one fusion seed, so that their intervals are over test images alone.")
    return " ".join(sentences)
