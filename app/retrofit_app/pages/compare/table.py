"""The table of the compared runs and their references, what it shows in a sentence, and their settings."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from retrofit_app.figures import difference, listing, number, percent, share
from retrofit_app.figures.noise import half
from retrofit_app.figures.words import seconds_words
from retrofit_app.runs import methods
from retrofit_app.runs.compared import Group, Row
from retrofit_app.runs.words import NONE, different

#: Columns of words, and of numbers; with their tooltips.
WORDS = {
    "network": "Method, grouping if not its own, importance, options; the best first, then what they are measured against.",
    "run": "Its name in the list of runs.",
}
NUMBERS = {
    "accuracy %": "On the test images; the mean over seeds where there are several.",
    "±": "Half the 95 % interval that the number of test images allows, in points.",
    "to best parent": "Gain over the best parent in points; in brackets the 95 % interval over images (paired) and seeds.",
    "seeds": "Runs that differ only in the seed of the fusion. 1: how much another seed changes the result is unknown.",
    "sd": "Standard deviation of the accuracies over the seeds, in points.",
    "loss": "Mean cross entropy on the test images.",
    "calib.": "Calibration error: mean gap between confidence and accuracy over 15 bins, 0 is best.",
    "seconds": "Time of the fusion and the fine-tuning, on the machine that made it.",
}


def configured() -> dict[str, Any]:
    """How st.dataframe shows the columns."""
    column = st.column_config.TextColumn
    words = {name: column(help=help, pinned=name == "network") for name, help in WORDS.items()}
    return {**words, **{name: column(help=help, alignment="right") for name, help in NUMBERS.items()}}


def heading(group: Group) -> str:
    """A group's networks and number of images."""
    images = max((row.samples for row in (*group.rows, *group.references)), default=0)
    return f"{group.title}{f', {images:,} test images' if images else ''}"


def side_by_side(group: Group) -> pd.DataFrame:
    """A group's compared runs, then its references, rounded as on all pages."""
    return pd.DataFrame([_line(group, row) for row in (*group.rows, *group.references)])


def _line(group: Group, row: Row) -> dict[str, str]:
    parent, more = group.best_parent, ""
    if parent is not None and row.n:
        more = "the best" if row is parent else difference(row.each, parent.each).words
    values = {
        "accuracy %": (row.accuracy, share),
        "±": (row.accuracy, lambda accuracy: half(accuracy, row.samples)),
        "sd": (row.deviation, number),
        "loss": (row.mean("loss"), lambda loss: number(loss, 2)),
        "calib.": (row.mean("calibration_error"), lambda error: number(error, 3)),
        "seconds": (row.seconds, seconds_words),
    }
    cells = {name: "" if value is None else words(value) for name, (value, words) in values.items()}
    cells |= {"to best parent": more, "seeds": str(row.n) if row.networks and row.n else ""}
    names = ", ".join(f"{one.id}{' (shipped)' if one.entry.shipped else ''}" for one in row.networks)
    return {"network": row.name, **{name: cells[name] for name in NUMBERS}, "run": names}


def findings(groups: Sequence[Group]) -> list[str]:
    """A sentence about each group, with intervals."""
    sentences, every = [], [row for group in groups for row in group.rows]
    names = {id(row): name for row, name in zip(every, _titles(every), strict=True)}
    for group in groups:
        measured = [row for row in group.rows if row.n]
        if not measured:
            continue
        best, parent = measured[0], group.best_parent
        equal = [names[id(row)] for row in measured if row.accuracy == best.accuracy]
        words = f"{listing(equal)} {'gets' if len(equal) == 1 else 'are tied with'} {percent(best.accuracy or 0.0)}"
        if len(equal) == 1 < len(measured):
            gap = difference(best.each, measured[1].each)
            ahead = "clearly ahead" if gap.clear else "not clearly ahead"
            words += f", {ahead} of {names[id(measured[1])]}; the difference is {gap.words} points"
        if best.networks and methods.keeps_parents(best.networks[0].entry):
            words += "; it keeps all networks side by side"
        if parent is not None and best.networks and methods.keeps_one(best.networks[0].entry) == parent.name:
            words += "; it is the best parent itself"
        elif parent is not None:
            more, than = difference(best.each, parent.each), f"the best parent ({parent.name})"
            words += f"; {'it is' if len(equal) == 1 else 'they are'} "
            words += more.than(than).replace("**", "") if more.points else f"a tie with {than}"
        sentences.append(f"{words}.")
    return sentences


# --- settings -------------------------------------------------------------------------------------


def settings(groups: Sequence[Group]) -> pd.DataFrame:
    """A line for each setting that differs, a column for each row of the tables above."""
    rows = [row for group in groups for row in group.rows]
    each = [row.networks[0].settings | _seeds(row) for row in rows]
    lines = {name: [values.get(name, NONE) for values in each] for name in different(each)}
    return pd.DataFrame.from_dict(lines, orient="index", columns=_titles(rows))


def _titles(rows: Sequence[Row]) -> list[str]:
    """Names of rows, with their runs' titles or names if two are equal."""
    names = [row.name for row in rows]
    return [name if names.count(name) == 1 else f"{name} ({row.id})" for name, row in zip(names, rows, strict=True)]


def _seeds(row: Row) -> dict[str, str]:
    seeds = [network.settings.get("seed", NONE) for network in row.networks]
    return {"seed": ", ".join(seeds)} if len(seeds) > 1 else {}
