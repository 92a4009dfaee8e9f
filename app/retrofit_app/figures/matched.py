"""The levels of two runs, one above the other, matched by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.express as px

from .diagnosis import error_tips, error_words, errors_of, fitted
from .drawing import faceted
from .palette import Palette
from .picture import Picture
from .words import listing, number, percent

MANY = 16  # most levels for which bars have numbers
HARDLY = 0.5  # points of error by which two runs that differ hardly do
FEW = 6  # most levels for which every error has a decimal


@dataclass(frozen=True)
class Strip:
    """The levels of a run."""

    name: str
    table: Any
    """From `results.frame`"""
    accuracy: Sequence[float]
    """Of the ensemble, then after each level; empty if unmeasured"""


def matched_names(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """All levels of two runs, equal names joined, each run's in its own order."""
    names, rest = [], list(second)
    for name in first:
        if name in rest:
            ahead = rest[: rest.index(name)]
            names += [each for each in ahead if each not in first]
            rest = rest[rest.index(name) + 1 :]
        names.append(name)
    return [*names, *(name for name in rest if name not in names)]


def matched_levels(first: Strip, second: Strip, palette: Palette) -> Picture:
    """Both errors of every level of two runs, one run below the other; a level that only one run has is empty in the other."""
    names = matched_names(*(list(strip.table["level"]) for strip in (first, second)))
    kinds = ("grouping", "approximation")
    frame = pd.DataFrame([row for strip in (first, second) for row in _rows(strip, names, kinds)])
    figure = px.bar(
        frame,
        x="place",
        y="error, %",
        color="kind",
        pattern_shape="kind",
        facet_row="run",
        facet_row_spacing=0.14,
        text="words",
        hover_name="tip",
        hover_data=dict.fromkeys(("place", "error, %", "kind", "run", "words"), False),
        color_discrete_map=dict(zip(kinds, (palette.grouping, palette.approximation), strict=True)),
        pattern_shape_map=dict(zip(kinds, ("", "/"), strict=True)),
        labels={"place": ""},
    )
    figure.for_each_annotation(
        lambda head: head.update(
            text=f"<b>{head.text.removeprefix('run=')}</b>",
            textangle=0,
            x=0,
            xanchor="left",
            yanchor="bottom",
            yshift=62,
        )
    )
    figure.update_traces(
        textposition="outside", textangle=0, cliponaxis=False, width=0.56, marker_line_color=palette.outline
    )
    figure.update_traces(marker_pattern={"fillmode": "overlay", "fgcolor": palette.outline, "size": 6, "solidity": 0.3})
    ticks = {number: str(number) for number in range(1, len(names) + 1) if len(names) <= MANY or number % 5 == 1}
    figure.update_xaxes(range=[0.4, len(names) + 0.6], tickvals=list(ticks), ticktext=list(ticks.values()))
    most = max(float(errors_of(strip.table).max()) for strip in (first, second))
    figure.update_yaxes(range=[0, 1.25 * most or 1], showgrid=False)
    figure.update_layout(barmode="stack")
    faceted(figure, palette, 380, t=34, b=60, l=48, r=8)
    return Picture(
        figure,
        f"Grouping and approximation error of {len(names)} levels of {first.name}, above, and {second.name}, below",
        _finding(first, second),
    )


def _rows(strip: Strip, names: Sequence[str], kinds: Sequence[str]) -> list[dict[str, Any]]:
    """A run's bars, two for a level; the upper one carries the sum as a number."""
    table, errors = strip.table, errors_of(strip.table)
    words = error_words(errors, len(names) <= FEW) if len(names) <= MANY else [""] * len(errors)
    after = [f"<br>accuracy after it {percent(value)}" for value in strip.accuracy[1:]] or [""] * len(errors)
    return [
        {
            "run": strip.name,
            "place": names.index(name) + 1,
            "error, %": 100 * share,
            "kind": kind,
            "words": word if kind == kinds[-1] else "",
            "tip": f"{strip.name}<br>{tip}{accuracy}",
        }
        for kind in kinds
        for name, share, word, tip, accuracy in zip(
            table["level"], table[f"{kind} share"], words, error_tips(table), after, strict=True
        )
    ]


def _finding(first: Strip, second: Strip) -> str:
    """The level where errors differ most, and levels that only one run has."""
    tables = [
        dict(zip(strip.table["level"], errors_of(strip.table).tolist(), strict=True)) for strip in (first, second)
    ]
    common = [name for name in tables[0] if name in tables[1]]
    words = []
    if common:
        name = max(common, key=lambda each: abs(tables[0][each] - tables[1][each]))
        one, other = tables[0][name], tables[1][name]
        if abs(one - other) < 0.05:
            words.append("Both lose the same at every level.")
        elif abs(one - other) < HARDLY:
            words.append(f"They hardly differ, most by {number(abs(one - other))} points at {name}.")
        else:
            less, more = (first, second) if one < other else (second, first)
            words.append(
                f"They differ most at {name}: {less.name} has an error of {percent(min(one, other))}, {more.name} of "
                f"{percent(max(one, other))}."
            )
    else:
        words.append("They have no level of the same name.")
    for strip, (ours, theirs) in zip((first, second), (tables, tables[::-1]), strict=True):
        if only := [name for name in ours if name not in theirs]:
            words.append(f"Only {strip.name} has {listing(only)}.")
    if not all(fitted(strip.table) for strip in (first, second)):
        words.append("A method that aligns neurons and fits no level has no approximation error.")
    return " ".join(words)
