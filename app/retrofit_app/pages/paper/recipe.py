"""How a number was made: command, seeds, machine, time and date from its record; or what would measure it."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import escaped, lettered
from retrofit_app.figures.paper.cells import BETWEEN
from retrofit_app.figures.quantities import quantity
from retrofit_app.figures.words import first_up, seconds_words, signed
from retrofit_app.runs import paper
from retrofit_app.widgets.errors import guarded

from . import parameters


def dialog(columns: Sequence[Any], cell: str) -> None:
    """Show a cell's recipe in a dialog; closing it changes the address.

    Args:
        columns: the table's shown columns, one per name.
    """
    row, _, name = cell.rpartition(BETWEEN)
    column = next(column for column in columns if column.name == name).of(row)
    show = st.dialog(
        escaped(f"{lettered(row)}, {name}"), width="medium", on_dismiss=lambda: parameters.to_cell("")
    )(guarded(_recipe))  # fmt: skip
    show(column, column.line(row))


def _recipe(column: Any, line: Any) -> None:
    kind, paper_of = quantity(column.metric), line.paper
    with st.container(horizontal=True):
        seeds = f"Mean ± deviation over {paper_of.seeds} seeds, each with its own parents." if paper_of else None
        st.metric("paper", line.paper_words, help=seeds, width="content")
        st.metric("ours", line.words, help="Mean ± deviation (number of fusions).", width="content")
        if line.difference is not None:
            st.metric("difference", signed(line.difference, kind.digits), width="content")
    st.caption(escaped(f"In {kind.name}. Ours: {column.differences}."))
    if line.mean is not None:
        _measured(column, line)
    elif line.state == "not measured":
        st.markdown("**Measure it**, with its parents:")
        st.code(column.command(line.row, runs.runs_folder().name), language="bash", wrap_lines=True)
    else:
        widgets.why(line.note)


def _measured(column: Any, line: Any) -> None:
    """Draw each fusion behind a number, its command, and its machine."""
    results = column.results(line.row)
    first = results[0]
    for against in paper.contradicted(column).get(line.row, ()):
        st.warning(f"{escaped(against)}: the other way round than in the paper.", icon=":material/swap_vert:")
    if line.note:
        widgets.why(f"{first_up(line.note)}.")
    st.markdown("**Measure it again**")
    st.code(column.command(line.row, runs.runs_folder().name), language="bash", wrap_lines=True)
    st.dataframe(_fusions(results, column.metric), hide_index=True, alt="Each fusion behind this number.")
    st.caption(escaped(f"Measured on {first.machine}."))


def _fusions(results: Sequence[Any], name: str) -> pd.DataFrame:
    """A line for each set of parents and seed."""
    return pd.DataFrame(
        {
            "parents": result.parents,
            "seed": result.seed,
            name: round(result.value, 2),
            "seconds": "" if result.seconds is None else seconds_words(result.seconds),
            "date": result.date,
        }
        for result in results
    )
