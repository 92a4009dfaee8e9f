"""Where knowledge is lost: the points of accuracy that each level loses or regains, over its error."""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from .diagnosis import changes, diagnosis, error_tips, error_words, errors_of, worst_level
from .drawing import (
    BARE,
    HEAD,
    NOTHING,
    Trace,
    bars,
    cell_words,
    cells,
    edge,
    error_bars,
    inks,
    lettering,
    note,
    panels,
    picture_of,
    targets,
)
from .noise import Difference, Facts, difference
from .palette import Palette
from .picture import Picture
from .words import number, signed, within

#: From so many levels on, blocks are drawn of which one is open; blocks of levels whose names have no common beginning.
MANY, BLOCK = 12, 4
PALEST = 10.0  # per cent, the least error with the full tint
PALE = 0.3  # the opacity of a change that chance may explain
NAMED = 5  # up to so many levels, a phone has room for the chosen one's name and for every decimal

Column = tuple[int, int]
"""The levels of one bar: the first, and the one after the last"""


def level_losses(table: Any, course: Sequence[Facts], palette: Palette, chosen: int | None = None) -> Picture:
    """A bar down for the points of accuracy that a level loses, or up for those that it regains, with a 95 % interval; pale if
    chance may explain it. Below, a row of errors.

    From MANY levels on, only the chosen level's block is open (by default the worst level's). Invisible marks over each bar
    carry a level's number, for clicks; a closed block's is that of its largest loss.

    Args:
        table: `results.frame(levels)`.
        course: results of the ensemble, then after each level, on the same images; empty if unmeasured.
        chosen: the level with a frame.
    """
    measured, errors = bool(course), errors_of(table)
    columns = columns_of(table["level"].tolist(), worst_level(table, course) if chosen is None else chosen)
    row = np.array([[float(errors[start:end].max()) for start, end in columns]])
    steps = [difference(course[end], course[start]) for start, end in columns] if measured else []
    clicks = [_opened(column, errors, course) for column in columns]
    tips = _tips(table, columns, steps)
    most, tints = max(PALEST, float(row.max())), (palette.paper, palette.grouping)
    below = {"xaxis": "x2", "yaxis": "y2"} if measured else {}
    traces = [
        {**cells(row, tints, most, [tips]), **below},
        {**cell_words([error_words(row[0], len(columns) <= NAMED)], inks(row / most, tints, palette)), **below},
        _targets(columns, [0.0], tips, clicks, **below),
    ]
    unit = "error, % of the neurons’ energy"
    names = [_name(table, column, chosen) for column in columns]
    side = {**BARE, "showline": False, "showticklabels": False, "range": [-0.5, 0.5]}
    under = {**BARE, "showline": False, "tickvals": list(range(len(columns))), "ticktext": names, "tickangle": 0}
    span = {"range": [-0.5, len(columns) - 0.5]}
    if measured:
        low, high = _span(steps)
        traces = [*_changes(steps, palette, high - low), *traces]
        traces += [
            _targets(columns, [low + share * (high - low) for share in (0.15, 0.5, 0.85)], tips, clicks),
        ]
        up = {"range": [low, high], "zeroline": True, "zerolinecolor": palette.muted, "ticks": "", "nticks": 5}
        axes = panels((0.82, 0.18), 0.17, under, (up, side), **{**BARE, "showline": False, **span})
        first, last = (number(course[index]["accuracy"]) for index in (0, -1))
        start = "ensemble" if "+" in table["widths"].iloc[0] else "network A"
        notes = [
            note(f"points of accuracy: {start} {first} → fused {last}\N{NO-BREAK SPACE}%", 0, 1.0, **HEAD),
            note(unit, 0, axes["yaxis2"]["domain"][1], **HEAD, bgcolor=palette.paper),  # over the frame's edge
        ]
    else:
        axes, notes = {"xaxis": {**under, **span}, "yaxis": side}, [note(unit, 0, 1.0, **HEAD)]
    frame = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "line": edge(palette.accent, 2), "fillcolor": NOTHING}
    at = next(
        (index for index, (start, end) in enumerate(columns) if chosen is not None and start <= chosen < end), None
    )
    return picture_of(
        palette,
        traces,
        250 if measured else 84,
        f"Points of accuracy that each of {len(table)} levels loses or regains, over its error"
        if measured
        else f"A row with the error of each of {len(table)} levels",
        diagnosis(table, course),
        margin=(36 if measured else 4, 6, 24, 24),
        clickmode="event+select",
        annotations=notes,
        shapes=[] if at is None else [{**frame, "x0": at - 0.47, "x1": at + 0.47}],
        **axes,
    )


def columns_of(names: Sequence[str], opened: int) -> list[Column]:
    """Each level by itself or, from MANY levels on, blocks by the beginning of the names, of which one is open."""
    levels = range(len(names))
    if len(names) < MANY:
        return [(level, level + 1) for level in levels]
    blocks = [list(block) for _, block in groupby(levels, key=lambda level: _beginning(names[level]))]
    if len(blocks) > len(names) / 2:
        blocks = [list(levels[start : start + BLOCK]) for start in levels[::BLOCK]]
    columns: list[Column] = []
    for block in blocks:
        is_open = block[0] <= opened <= block[-1]
        columns += [(level, level + 1) for level in block] if is_open else [(block[0], block[-1] + 1)]
    return columns


def _beginning(name: str) -> str:
    """A level's name up to its first number: "blocks.3" of "blocks.3.mlp.fc1"."""
    found = re.match(r"\D*\d+", name)
    return found[0] if found else name


def _name(table: Any, column: Column, chosen: int | None) -> str:
    start, end = column
    if end - start > 1:
        return f"{start + 1}–{end}"
    name = f" · {table['level'].iloc[start]}" if len(table) <= NAMED else ""
    return f"<b>{start + 1}{name}</b>" if start == chosen else f"{start + 1}"


def _opened(column: Column, errors: np.ndarray, course: Sequence[Facts]) -> int:
    """The level that a click opens: the one that loses most, or has the largest error."""
    start, end = column
    lost = [-each.points for each in changes(course[start : end + 1])] if course else errors[start:end]
    return start + int(np.argmax(lost))


def _tips(table: Any, columns: Sequence[Column], steps: Sequence[Difference]) -> list[str]:
    words = []
    for index, (start, end) in enumerate(columns):
        if end - start > 1:
            text = f"levels {start + 1} to {end}, from {table['level'].iloc[start]}<br>largest error in the row below"
        else:
            text = f"level {start + 1}, {error_tips(table)[start]}"
        if steps:
            step = steps[index]
            chance = "" if step.clear else ": may be chance"
            text += f"<br>accuracy {signed(step.points)} points{within(step.ends)}{chance}"
        words.append(f"{text}<br>click: open {'these levels' if end - start > 1 else 'this level'}")
    return words


def _ends(step: Difference) -> tuple[float, float]:
    return step.ends or (step.points, step.points)


def _span(steps: Sequence[Difference]) -> tuple[float, float]:
    """The axis of points, with room for numbers beyond the intervals."""
    low, high = (pick(0.0, *(pick(_ends(step)) for step in steps)) for pick in (min, max))
    room = 0.26 * max(high - low, 1.0)
    return low - room, high + room


def _changes(steps: Sequence[Difference], palette: Palette, span: float) -> list[Trace]:
    """The bars with their intervals, and their numbers beyond these."""
    places, points = list(range(len(steps))), [step.points for step in steps]
    colours = [palette.grouping if value < 0 else palette.accent for value in points]
    below = [step.points - _ends(step)[0] for step in steps]
    whiskers = error_bars([_ends(step)[1] - step.points for step in steps], palette.muted, arrayminus=below)
    look = {"color": colours, "opacity": [1 if step.clear else PALE for step in steps], "line": {"width": 0}}
    beyond = [_ends(step)[step.points >= 0] + 0.1 * span * (1 if step.points >= 0 else -1) for step in steps]
    inks = [palette.ink if step.clear else palette.muted for step in steps]
    words = [f"<b>{signed(step.points)}</b>" if step.clear else signed(step.points) for step in steps]
    return [
        bars(places, points, marker=look, width=0.6, error_y=whiskers),
        lettering(places, beyond, words, textfont={"color": inks}),
    ]


def _targets(
    columns: Sequence[Column], heights: Sequence[float], tips: list[str], clicks: Sequence[int], **axes: str
) -> Trace:
    """Squares that make a whole column clickable. (Bars and cells cannot be picked.)"""
    places = [index for _ in heights for index in range(len(columns))]
    return targets(
        places,
        [height for height in heights for _ in columns],
        40,
        tips * len(heights),
        customdata=[[level] for _ in heights for level in clicks],
        cliponaxis=False,
        **axes,
    )
