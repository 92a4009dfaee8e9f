"""Where knowledge is lost, drawn as a network: the parents flow into the fused one, whose levels are blocks."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .diagnosis import diagnosis, error_tips, error_words, errors_of, fitted, is_measured
from .drawing import (
    BARE,
    NOTHING,
    Trace,
    axis,
    bars,
    edge,
    hatched,
    lettering,
    line,
    mark,
    picture_of,
    scatter,
    targets,
)
from .noise import Facts
from .palette import Palette, mixed
from .picture import Picture
from .words import letter, network, number, percent

#: Above so many levels, blocks have no numbers and axes skip names.
MANY = 16
#: Up to so many levels, a phone has room for the chosen one's name and for every decimal.
NAMED = 5
LEAST = 0.26  # the lowest block's height as a share of the tallest's, so that its number fits
PALEST = 10.0  # per cent, the least error with the full tint
BLOCK, SLICE = 0.72, 0.8  # width of a block in levels, and of a parent's slice as a share of its room
PARENTS, ROOM = -1.02, 0.92  # the parents' centre and width in levels; the first block is at 0


def drawn_network(table: Any, course: Sequence[Facts], palette: Palette, chosen: int | None = None) -> Picture:
    """The parents on the left flow into the fused network, one block per level: its height shows the width, its tint the error.

    The block names its error; hatched: more than half is approximation. A line above shows accuracy, from the ensemble's
    over the parents to that after each level. Invisible marks over each block carry the level's number, for clicks.

    Args:
        table: `results.frame(levels)`.
        course: see `largest_loss`; empty if unmeasured.
        chosen: the level with a frame.
    """
    measured, accuracy = is_measured(table, course), [each["accuracy"] for each in course]
    widths = [[int(width) for width in text.split("+")] for text in table["widths"]]
    tallest = max(max(map(max, widths)), int(table["fused"].max()))
    heights = [_height(width, tallest) for width in table["fused"]]
    frame = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "line": edge(palette.accent, 2), "fillcolor": NOTHING}
    errors = "grouping and approximation error" if fitted(table) else "grouping error"
    line_words = (
        f", and a line of accuracy after each, from {number(accuracy[0])} ({_start(table)}) to {number(accuracy[-1])} per cent"
        if measured
        else ""
    )
    return picture_of(
        palette,
        [
            _flows(widths[0], heights, palette),
            *_parents(widths, tallest, palette),
            _blocks(table, heights, palette),
            *(_accuracy(table, accuracy, palette) if measured else []),
            *_targets(table, accuracy),
        ],
        176 if measured else 124,
        f"The networks drawn with {errors} of {len(table)} levels as the tint of a block each{line_words}",
        diagnosis(table, course),
        margin=(24, 6, 4, 24),
        barmode="overlay",
        clickmode="event+select",
        shapes=[] if chosen is None else [{**frame, "x0": chosen - 0.47, "x1": chosen + 0.47}],
        **_axes(table["level"].tolist(), accuracy, chosen),
    )


def _height(width: int, tallest: int) -> float:
    """A block's height, 1 for the widest level; square roots let widths of 16 and 512 share a picture."""
    return max(LEAST, (width / tallest) ** 0.5)


def _blocks(table: Any, heights: Sequence[float], palette: Palette) -> Trace:
    """A bar for each level, in the tint of its error, with it in figures."""
    errors, count = errors_of(table), len(heights)
    top = max([PALEST, *errors])
    looks = [mixed(palette.paper, palette.grouping, 0.06 + 0.94 * error / top) for error in errors]
    hatches = [""] * count
    if fitted(table):
        mostly = (table["approximation share"] > table["grouping share"]).tolist()
        hatches = ["/" if most else "" for most in mostly]
    hatch = hatched(palette, [tint for tint, _ in looks], hatches)
    return bars(
        list(range(count)),
        list(heights),
        base=[-height / 2 for height in heights],
        width=BLOCK,
        # Thin and faint, so that the number stays readable.
        marker={
            **hatch,
            "pattern": {**hatch["pattern"], "solidity": 0.15, "fgopacity": 0.35},
            "line": edge(palette.muted),
        },
        text=error_words(errors, count <= NAMED) if count <= MANY else None,
        textposition="inside",
        insidetextanchor="middle",
        constraintext="none",
        textangle=0,
        textfont={"color": [ink for _, ink in looks]},
    )


def _parents(widths: Sequence[Sequence[int]], tallest: int, palette: Palette) -> list[Trace]:
    """Each parent as a row of slices, one per level, in its colour, with its letter."""
    parents, levels = len(widths[0]), len(widths)
    room = ROOM / levels
    across = [PARENTS - ROOM / 2 + (level + 0.5) * room for level in range(levels)]
    middles = [_middle(parent, parents) for parent in range(parents)]
    traces = []
    for parent, middle in enumerate(middles):
        heights = [_height(level[parent], tallest) * 0.8 / parents for level in widths]
        traces.append(
            bars(
                across,
                heights,
                [f"{network(parent)}: {', '.join(str(level[parent]) for level in widths)} neurons"] * levels,
                base=[middle - height / 2 for height in heights],
                width=SLICE * room,
                marker={"color": palette.parent(parent), "line": {"width": 0}},
                text=[""] * levels,
            )
        )
    letters = [f"<b>{letter(parent)}</b>" for parent in range(parents)]
    left = [PARENTS - ROOM / 2 - 0.06] * parents
    return [*traces, lettering(left, middles, letters, textposition="middle left")]


def _middle(parent: int, parents: int) -> float:
    """A parent's vertical centre; the first is on top."""
    return (parents - 1 - 2 * parent) / (2 * parents)


def _flows(first: Sequence[int], heights: Sequence[float], palette: Palette) -> Trace:
    """Bands from each parent to the first block, and from block to block."""
    parents = len(first)
    middles = [_middle(parent, parents) for parent in range(parents)]
    #: Begin and end: x, vertical centre, height.
    bands = [
        ((PARENTS + ROOM / 2, middle, 0.5 / parents), (-BLOCK / 2, heights[0] * middle, heights[0] / parents))
        for middle in middles
    ]
    bands += [
        ((level + BLOCK / 2, 0.0, left), (level + 1 - BLOCK / 2, 0.0, right))
        for level, (left, right) in enumerate(zip(heights, heights[1:], strict=False))
    ]
    x: list[float | None] = []
    y: list[float | None] = []
    ease = np.linspace(0, 1, 13)
    rise = ease * ease * (3 - 2 * ease)
    for begin, end in bands:
        across, middle, height = (
            start + (stop - start) * share for start, stop, share in zip(begin, end, (ease, rise, rise), strict=True)
        )
        x += [*across.tolist(), *across[::-1].tolist(), None]
        y += [*(middle + height / 2).tolist(), *(middle - height / 2)[::-1].tolist(), None]
    return line(x, y, palette.line, 0, fill="toself", fillcolor=palette.line, opacity=0.6)


def _accuracy(table: Any, accuracy: Sequence[float], palette: Palette) -> list[Trace]:
    """The line over the blocks, starting over the parents, with the ensemble of several."""
    changes = np.diff(np.asarray(accuracy))
    worst, last = int(changes.argmin()) + 1, len(table)
    labelled = {0, worst, last} if last > MANY else set(range(last + 1))
    words = [number(value) if index in labelled else "" for index, value in enumerate(accuracy)]
    tips = [
        f"level {index}, {name}<br>accuracy if the fusion stopped here: {percent(value)}"
        for index, (name, value) in enumerate(zip(table["level"], accuracy[1:], strict=True), 1)
    ]
    start = _start(table)  # it is below its point, or above it if the line runs low: the blocks are below.
    is_low = accuracy[0] - min(accuracy) < (max(accuracy) - min(accuracy)) / 2 or max(accuracy) == min(accuracy)
    is_named = last <= NAMED
    course = scatter(
        [PARENTS, *range(last)],
        list(accuracy),
        "lines+markers+text",
        [f"{start}: {percent(accuracy[0])}", *tips],
        yaxis="y2",
        text=[(f"{start}<br>" if is_named and is_low else "") + percent(accuracy[0]), *words[1:]],
        textposition="top center",
        cliponaxis=False,
        line=edge(palette.ink, 2),
        marker=mark("circle", 8, [palette.paper, *[palette.ink] * last], palette.ink, 2),
    )
    word = {
        **lettering([PARENTS], [accuracy[0]], [start], yaxis="y2", textposition="bottom center"),
        "mode": "markers+text",
        "marker": mark("circle", 26, NOTHING, width=0),  # it keeps the word off the line
        "textfont": {"color": palette.muted},
    }
    return [course, word] if is_named and not is_low else [course]


def _start(table: Any) -> str:
    """What is measured before the first level."""
    return "ensemble" if "+" in table["widths"].iloc[0] else "network A"


def _targets(table: Any, accuracy: Sequence[float]) -> list[Trace]:
    """Squares that make a whole level's column clickable. (Bars cannot be picked.)"""
    levels = list(range(len(table)))
    tips = [f"level {level + 1}, {tip}" for level, tip in enumerate(error_tips(table))]
    if is_measured(table, accuracy):
        steps = zip(tips, accuracy, accuracy[1:], strict=False)
        tips = [f"{tip}<br>accuracy {percent(before)} → {percent(after)}" for tip, before, after in steps]
    tips = [f"{tip}<br>click: open this level" for tip in tips]
    clicks = {"customdata": [[level] for level in levels], "cliponaxis": False}
    return [targets(levels, [height] * len(levels), 34, tips, **clicks) for height in (-0.38, 0.0, 0.38)]


def _axes(level_names: Sequence[str], accuracy: Sequence[float], chosen: int | None) -> dict[str, Any]:
    """The axes of levels, of widths and, above them, of accuracy if it was measured."""
    levels, measured = len(level_names), is_measured(level_names, accuracy)
    every = range(0, levels, 1 if levels <= MANY else 5)
    ticks = [index for index in every if chosen is None or levels <= MANY or abs(index - chosen) > 1]
    ticks += [chosen] if chosen is not None and chosen not in ticks else []
    names = [
        f"<b>{index + 1}{f' · {level_names[index]}' if levels <= NAMED else ''}</b>"
        if index == chosen
        else f"{index + 1}"
        for index in ticks
    ]
    bare = {**BARE, "showline": False}
    row = {**bare, "showticklabels": False}
    span = [PARENTS - 0.62 - 0.02 * levels, levels - 0.5]
    top = 0.54 if measured else 1.0
    axes = {
        "xaxis": {**bare, "range": span, "tickvals": ticks, "ticktext": names, "tickangle": 0},
        "yaxis": axis("width", range=[-0.53, 0.53], domain=[0, top], **row),
    }
    if measured:
        low, high = min(accuracy), max(accuracy)
        span = max(high - low, 1.0)
        ends = [low - 0.25 * span, high + 0.75 * span]
        axes["yaxis2"] = axis("accuracy", domain=[top + 0.02, 1], range=ends, anchor="x", **row)
    return axes
