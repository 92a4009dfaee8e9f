"""Accuracy against one setting, beside parents and ensemble."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .drawing import across_paper, axis, drawn, edge, mark, note, padded, scatter, spread
from .noise import Difference
from .palette import Palette
from .picture import Picture
from .placing import shared_places
from .words import lettered, listing, number, percent

WIDE = 8  # values over more than this factor are on a logarithmic axis
FAR = 1  # other networks further off than this many times the curve's span are named, not drawn
LINES = 12  # of text fit on each other
MOST_PARENTS = 2  # more of them are one line, the best


def place(value: float | str) -> float:
    """A value's place on the axis: 0.1 of "0.1x"."""
    return float(str(value).removesuffix("x"))


def measured(curve: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows of values that have networks."""
    return [row for row in curve.get("rows", ()) if row["reason"] is None]


def swept(curve: Mapping[str, Any], palette: Palette) -> Picture:
    """A curve through the values' accuracies; a bar is the 95 % interval of the difference from the best value.

    Args:
        curve: see `SweepWork.curve`, with at least one network.
    """
    rows, name = measured(curve), curve["over"].replace("_", " ")
    x = [place(row["value"]) for row in rows]
    best = max(row["accuracy"] for row in rows)
    ends = [[best + end for end in row["interval"]] for row in rows]
    tips = [
        f"{name} {row['value']}: {percent(row['accuracy'])}"
        + (f"<br>from the best value: {_behind(row).words} points" if row["accuracy"] < best else "<br>the best value")
        + "<br>click: open this run"
        for row in rows
    ]
    line = scatter(
        x,
        [row["accuracy"] for row in rows],
        "lines+markers",
        tips,
        line=edge(palette.accent, 2),
        marker=mark("circle", 11, palette.accent, palette.paper, 1.5),
        error_y=spread(
            [end[1] - row["accuracy"] for end, row in zip(ends, rows, strict=True)],
            palette.accent,
            symmetric=False,
            arrayminus=[row["accuracy"] - end[0] for end, row in zip(ends, rows, strict=True)],
        ),
        customdata=[[row["runs"][0]] for row in rows],
        cliponaxis=False,
    )
    seeds = [
        (place(row["value"]), accuracy, run)
        for row in rows
        for accuracy, run in zip(row["per_seed"] or [row["accuracy"]], row["runs"], strict=True)
    ]
    dots = scatter(
        [each[0] for each in seeds],
        [each[1] for each in seeds],
        "markers",
        [f"one seed: {percent(accuracy)}<br>click: open this run" for _, accuracy, _ in seeds],
        marker=mark("circle-open", 7, palette.muted, palette.muted),
        customdata=[[run] for _, _, run in seeds],
    )
    inside = [*(row["accuracy"] for row in rows), *(end for pair in ends for end in pair), *(each[1] for each in seeds)]
    reach = FAR * max(max(inside) - min(inside), 2.0)
    near = {name: value for name, value in beside(curve).items() if min(inside) - reach <= value <= max(inside) + reach}
    bottom, top = padded([*inside, *near.values()], 0.12, least=2.0)
    is_log = min(x) > 0 and max(x) > WIDE * min(x)
    ticks = {"tickvals": x, "ticktext": [str(row["value"]) for row in rows]}
    low, high = padded(np.log10(x) if is_log else x, 0.08)
    return drawn(
        palette,
        [line, *([dots] if curve["seeds"] > 1 else [])],
        340,
        f"Accuracy in per cent against {name}: "
        + ", ".join(f"{row['value']} {number(row['accuracy'])}" for row in rows),
        finding(curve),
        margin=(44, 10, 8, 46),
        clickmode="event+select",
        shapes=[across_paper(accuracy, edge(palette.muted, 1, "dot")) for accuracy in near.values()],
        annotations=[
            note(
                ", ".join(f"{word} {number(near[word])}" for word in words),
                1,
                near[words[0]],
                palette.muted,
                xref="paper",
                xanchor="right",
                yanchor="bottom",
            )
            for words in shared_places(near, (top - bottom) / LINES)
        ],
        xaxis=axis(name, range=[low, high], **({"type": "log"} if is_log else {}), **ticks),
        yaxis=axis("accuracy, %", range=[bottom, top], nticks=6),
    )


def beside(curve: Mapping[str, Any]) -> dict[str, float]:
    """The other networks' accuracies: parents (of many, the best) and ensemble."""
    known = {name: facts["accuracy"] for name, facts in curve["networks"].items()}
    parents = {lettered(name).removeprefix("network "): known[name] for name in known if name.startswith("parent ")}
    if len(parents) > MOST_PARENTS:
        parents = {"best parent": max(parents.values())}
    return parents | {name: known[name] for name in ("ensemble",) if name in known}


def _behind(row: Mapping[str, Any]) -> Difference:
    low, high = row["interval"]
    return Difference(row["difference"], (low, high))


def finding(curve: Mapping[str, Any]) -> str:
    """Which values are highest, and which are clearly worse."""
    rows, name = measured(curve), curve["over"].replace("_", " ")
    accuracies = [row["accuracy"] for row in rows]
    first = [str(row["value"]) for row in rows if row["accuracy"] == max(accuracies)]
    worse = [str(row["value"]) for row in rows if str(row["value"]) not in first and _behind(row).clear]
    words = f"{name} = {listing(first)} {'is' if len(first) == 1 else 'are'} highest with {percent(max(accuracies))}"
    if len(rows) == 1:
        return f"{words}, so far."
    if not worse:
        reached = f"{percent(min(accuracies))} to {percent(max(accuracies))}"
        return f"No value of {name} is clearly best: {reached} over {len(rows)} values."
    rest = "; the others do not clearly differ" if len(worse) + len(first) < len(rows) else ""
    return f"{words}; clearly worse {'is' if len(worse) == 1 else 'are'} {listing(worse)}{rest}."
