"""How a number was made: command, seeds, machine, time and date from its record; or what would measure it."""

import time
from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import escaped, lettered
from retrofit_app.figures.paper.cells import BETWEEN
from retrofit_app.figures.quantities import quantity
from retrofit_app.figures.words import first_up, listing, seconds_words, signed
from retrofit_app.runs import paper
from retrofit_app.runs.paper import Shown
from retrofit_app.shell import navigation
from retrofit_app.widgets.errors import guarded

from . import parameters

#: Why a row has no number, if its line does not say.
WHY = {
    "N/A": "This method does not apply to these networks.",
    "refused": "The method refused these networks.",
    "not planned": "Nothing here measures it.",
}


def dialog(shown: Shown, columns: Sequence[Any], cell: str, entries: list[runs.Entry]) -> None:
    """Show a cell's recipe in a dialog; closing it changes the address.

    Args:
        columns: the table's shown columns, one per name.
        entries: all runs.
    """
    row, _, name = cell.rpartition(BETWEEN)
    column = next(column for column in columns if column.name == name).of(row)
    show = st.dialog(
        escaped(f"{lettered(row)}, {name}"), width="medium", on_dismiss=lambda: parameters.to_cell("")
    )(guarded(_recipe))  # fmt: skip
    show(shown, column, row, entries)


def _recipe(shown: Shown, column: Any, row: str, entries: list[runs.Entry]) -> None:
    line = column.line(row)
    _numbers(column, line)
    if line.mean is None:
        _elsewhere(shown, column, row)
        _unmeasured(column, line)
    else:
        _measured(column, line, entries)


def _numbers(column: Any, line: Any) -> None:
    """Draw the paper's number, ours, and the difference."""
    from retrofit_core.experiments.report_words import METRICS, ours_words, paper_words

    kind = quantity(column.metric)
    with st.container(horizontal=True):
        st.metric("paper", paper_words(line), help=_seeds(line.paper.seeds) if line.paper else None, width="content")
        st.metric("ours", ours_words(line), help="Mean ± deviation (number of fusions).", width="content")
        if line.difference is not None:
            reach = "" if line.reach is None else f" ± {kind.plain(line.reach)}"
            st.metric("difference", f"{signed(line.difference, kind.digits)}{reach}", width="content")
    differs = f"What differs from the paper: {paper.differences(column)}." if line.mean is not None else ""
    st.caption(escaped(f"In {METRICS.get(column.metric, kind.name)}. {differs}"))


def _seeds(count: int | None) -> str | None:
    return f"Mean ± deviation over {count} seeds, each with its own parents." if count else None


def _elsewhere(shown: Shown, column: Any, row: str) -> None:
    """Say what the row has at other scales."""
    kind = quantity(column.metric)
    same = [other for other in shown.every if other.name == column.name and other is not column]
    lines = [(other, line) for other in same for line in other.lines if line.row == row]
    words = [f"{kind.words(line.mean)} ({paper.differences(other)})" for other, line in lines]
    if words:
        widgets.why(f"Ours at another scale: {'; '.join(words)}.")


def _unmeasured(column: Any, line: Any) -> None:
    """Say why there is no number, and what measures it."""
    if line.state != "not measured":
        widgets.why(line.note or WHY[line.state])
        return
    st.markdown("**Measure it**")
    if line.command:
        st.caption(escaped(f"The first step, at this scale: {paper.differences(column)}."))
        st.code(line.command, language="bash", wrap_lines=True)
        st.caption("Or all of this row, with its parents:")
    st.code(paper.command(column, line.row), language="bash", wrap_lines=True)


def _measured(column: Any, line: Any, entries: list[runs.Entry]) -> None:
    """Draw each fusion behind a number, its command, and its inputs."""
    from retrofit_core.experiments.results import machine_words

    results = column.results(line.row)
    first = results[0]
    for against in paper.contradicted(column).get(line.row, ()):
        st.warning(f"{escaped(against)}: the other way round than in the paper.", icon=":material/swap_vert:")
    if line.note:
        widgets.why(f"{first_up(line.note)}.")
    st.markdown("**Command**" if len(results) == 1 else "**Command**, of the first of them")
    st.code(first.command_today or paper.command(column, line.row), language="bash", wrap_lines=True)
    _levels(first, entries)
    st.dataframe(_fusions(results, column), hide_index=True, alt="Each fusion behind this number.")
    inputs = {role: digest.split()[-1][:12] for role, digest in first.inputs.items()}
    st.caption(escaped(f"Measured on {machine_words([first])}. Digests of what went in: {listing(_pairs(inputs))}."))


def _pairs(inputs: dict[str, str]) -> list[str]:
    return [f"{role} {digest}" for role, digest in inputs.items()]


def _fusions(results: Sequence[Any], column: Any) -> pd.DataFrame:
    """A line for each seed."""
    name = column.metric
    return pd.DataFrame(
        {
            "seed": _seed(result.unit),
            **({name: round(result.metrics[name], 2)} if isinstance(result.metrics.get(name), float) else {}),
            "seconds": seconds_words(result.metrics.get("seconds") or result.metrics["all_seconds"]),
            "date": time.strftime("%Y-%m-%d", time.gmtime(result.finished)),
            "result": result.key,
        }
        for result in results
    )


def _seed(unit: dict[str, Any]) -> int:
    """The seed of the fusion, or of a parent's training."""
    start = unit.get("start", unit)
    return start.get("fusion", start.get("training", {})).get("seed", 0)


def _levels(result: Any, entries: list[runs.Entry]) -> None:
    """Draw a link to this fusion's levels if its run exists, or say how to get them."""
    entry = paper.run_of(result, entries)
    if entry is not None:
        navigation.link("levels", f"Levels of run {entry.name}", "Where this fusion loses what.", run=entry.name)
    elif "fusion" in result.unit:
        st.caption("Its levels are not here. Give this command `--record runs/NAME`, and the run appears on Levels.")
