"""The levels of two runs, one above the other, matched by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .diagnosis import error_tips, error_words, errors_of, fitted, is_measured
from .drawing import (
    ABOVE,
    BARE,
    HEAD,
    Trace,
    axis,
    bars,
    drawn,
    edge,
    hatched,
    lettering,
    mark,
    note,
    padded,
    scatter,
)
from .palette import Palette
from .picture import Picture
from .words import listing, number, percent

MANY = 16  # most levels for which bars have numbers
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
    """Both errors of every level of two runs, one run below the other, under the accuracy after each level.

    A level that only one run has leaves a gap in the other.
    """
    names = matched_names(*(list(strip.table["level"]) for strip in (first, second)))
    places = {name: index for index, name in enumerate(names)}
    measured = [strip for strip in (first, second) if is_measured(strip.table, strip.accuracy)]
    top = max(float(errors_of(strip.table).max()) for strip in (first, second)) * 1.25 or 1.0
    sides = {"y": first, "y2": second}
    gaps = [
        (place, side)
        for side, strip in sides.items()
        for name, place in places.items()
        if name not in set(strip.table["level"])
    ]
    frame = {"type": "rect", "xref": "x", "y0": 0, "y1": top * 0.7, "line": edge(palette.muted, 1, "dot")}
    domains = ((0.0, 0.29), (0.36, 0.65), (0.74, 1.0)) if measured else ((0.0, 0.45), (0.55, 1.0), (1.0, 1.0))
    legend = {**ABOVE, "itemclick": False}
    return drawn(
        palette,
        [
            *(trace for side, strip in sides.items() for trace in _bars(strip, places, palette, side)),
            *(_line(strip, places, palette, strip is second, _above(measured, i)) for i, strip in enumerate(measured)),
        ],
        470 if measured else 340,
        f"Grouping and approximation error of {len(names)} levels of {first.name}, above, and {second.name}, below",
        _finding(first, second),
        margin=(26, 8, 34, 56),
        barmode="overlay",
        legend={**legend, "y": -0.075, "yanchor": "top"},
        legend2=legend,
        # A dashed frame for levels that only the other run has.
        shapes=[{**frame, "yref": side, "x0": place - 0.28, "x1": place + 0.28} for place, side in gaps],
        annotations=[
            *(note("none", place, top * 0.35, palette.muted, yref=side) for place, side in gaps),
            note(f"<b>{first.name}</b>", 0, domains[1][1], **HEAD),
            note(f"<b>{second.name}</b>", 0, domains[0][1], **HEAD),
        ],
        **_axes(measured, names, top, domains),
    )


def _bars(strip: Strip, places: dict[str, int], palette: Palette, side: str) -> list[Trace]:
    """Both errors of each level stacked, with their sum as a number.

    Args:
        side: the vertical axis; the first one's bars are in the legend.
    """
    x = [places[name] for name in strip.table["level"]]
    grouping, approximation = ((100 * strip.table[f"{kind} share"]).tolist() for kind in ("grouping", "approximation"))
    tips = [f"{strip.name}<br>{tip}" for tip in error_tips(strip.table)]
    kinds = (
        ("grouping", grouping, None, hatched(palette, palette.grouping, "")),
        ("approximation", approximation, grouping, hatched(palette, palette.approximation, "/")),
    )
    traces = [
        {
            **bars(x, y, tips, base=base, name=name, legendgroup=name, marker=marker, width=0.56, yaxis=side),
            "showlegend": side == "y",
        }
        for name, y, base, marker in kinds
    ]
    if len(places) <= MANY:
        errors = errors_of(strip.table)
        words = error_words(errors, len(places) <= FEW)
        traces.append(lettering(x, errors, words, yaxis=side, textposition="top center"))
    return traces


def _line(strip: Strip, places: dict[str, int], palette: Palette, dashed: bool, above: Sequence[bool]) -> Trace:
    """The accuracy after each level, starting with the ensemble's."""
    colour = palette.muted if dashed else palette.ink
    tips = [
        f"{strip.name}<br>accuracy if fusion stopped after {name}: {percent(value)}"
        for name, value in zip(strip.table["level"], strip.accuracy[1:], strict=True)
    ]
    return scatter(
        [-1, *(places[name] for name in strip.table["level"])],
        list(strip.accuracy),
        "lines+markers+text",
        [f"{strip.name}<br>all networks side by side: {percent(strip.accuracy[0])}", *tips],
        yaxis="y3",
        text=[number(value) if len(places) <= MANY else "" for value in strip.accuracy],
        textposition=["top center" if up else "bottom center" for up in above],
        textfont={"color": colour},
        line=edge(colour, 2, "dash" if dashed else "solid"),
        marker=mark("diamond" if dashed else "circle", 9, colour, width=0),
        name=strip.name,
        legend="legend2",
        cliponaxis=False,
    )


def _above(measured: Sequence[Strip], index: int) -> list[bool]:
    """Whether each of a line's numbers is above it: the higher line's are; if both are equal, the first one's."""
    ours = measured[index].accuracy
    if len(measured) < 2:
        return [True] * len(ours)
    other = measured[1 - index].accuracy
    if len(other) != len(ours):
        return [not index] * len(ours)
    return [one > two or (one == two and not index) for one, two in zip(ours, other, strict=True)]


def _axes(
    measured: Sequence[Strip], names: Sequence[str], top: float, domains: Sequence[tuple[float, float]]
) -> dict[str, Any]:
    """The axes of levels, of both runs' errors above them and, if measured, of accuracies on top."""
    bare = {**BARE, "showline": False, "showticklabels": False}
    bottom, middle, high = domains
    before = ["ensemble"] if measured else []
    axes = {
        "xaxis": {
            **bare,
            "showticklabels": True,
            "range": [-1.45 if measured else -0.6, len(names) - 0.4],
            "tickvals": list(range(-len(before), len(names))),
            "ticktext": [*before, *_labels(names)],
            "tickangle": 0,
            "anchor": "y2",
        },
        "yaxis": axis("error, %", domain=middle, range=[0, top], **bare),
        "yaxis2": axis("error, %", domain=bottom, range=[0, top], anchor="x", **bare),
    }
    if measured:
        ends = padded([value for strip in measured for value in strip.accuracy], 0.45, least=1.0)
        axes["yaxis3"] = axis("accuracy", domain=high, range=ends, anchor="x", **bare)
    return axes


def _labels(names: Sequence[str]) -> list[str]:
    """Levels' numbers: names do not fit side by side on a phone."""
    return [str(index + 1) if len(names) <= MANY or index % 5 == 0 else "" for index in range(len(names))]


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
