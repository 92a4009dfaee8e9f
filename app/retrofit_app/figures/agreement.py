"""How alike groupings are, beside how alike two seeds of one score are."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .drawing import ABOVE, axis, axis_of_names, bars, cells, hatched, plot, targets
from .neurons import Neurons
from .palette import Palette
from .picture import Picture, number, percent

#: Sizes of clusters that share a bar.
SIZES = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 8), (9, 16), (17, 32), (33, 64), (65, 10**9))


def title(score: str) -> str:
    """An importance score's name on the page; of one that the library does not know, as its record has it."""
    from retrofit_core.fusion.importance import IMPORTANCE  # takes seconds, and not every page needs it

    return IMPORTANCE[score].title if score in IMPORTANCE else score


def agreement_matrix(agreement: Sequence[dict[str, Any]], palette: Palette) -> Picture:
    """Adjusted Rand indices of the scores' groupings; on the diagonal the index between seeds of one score, the floor.

    Args:
        agreement: rows of `LevelAnalysis.agreement`.
    """
    names = list(dict.fromkeys(row["first"] for row in agreement) | dict.fromkeys(row["second"] for row in agreement))
    table = {frozenset((row["first"], row["second"])): row for row in agreement}
    values = np.full((len(names), len(names)), np.nan)
    text = [["" for _ in names] for _ in names]
    for i, first in enumerate(names):
        for j, second in enumerate(names):
            row = table.get(frozenset((first, second)))
            if row is None:
                continue
            values[i, j] = row["mean"]
            spread = "" if row["least"] == row["most"] else f"<br>{number(row['least'], 2)} to {number(row['most'], 2)}"
            below = "<br>its seeds" if i == j else f"<br>seeds: {number(_floor(table, first, second), 2)}"
            text[i][j] = f"<b>{number(row['mean'], 2)}</b>{spread if i == j else ''}{below}"
    colours = (palette.paper, "#BFE0DD") if palette.paper == "#FFFFFF" else ("#232320", "#1F5B58")
    shown = [title(name) for name in names]
    pairs = [(j, i, f"{names[min(i, j)]}-{names[max(i, j)]}") for i in range(len(names)) for j in range(len(names))]
    traces = [
        cells(
            shown,
            shown,
            values.tolist(),
            colours,
            1,
            3,
            text=text,
            texttemplate="%{text}",
            textfont={"color": palette.ink},
            hovertemplate="%{y}, %{x}: %{z:.3f}<extra></extra>",
        ),
        targets(  # a heat map cannot be picked
            [shown[j] for j, _, _ in pairs],
            [shown[i] for _, i, _ in pairs],
            66,
            customdata=[[pair] for *_, pair in pairs],
            cliponaxis=False,
            text=[f"{shown[i]}, {shown[j]}: {text[i][j]}<br>click: side by side" for j, i, _ in pairs],
            hovertemplate="%{text}<extra></extra>",
        ),
    ]
    figure = plot(
        palette,
        traces,
        60 + 76 * len(names),
        (4, 4, 28, 4),
        clickmode="event+select",
        xaxis=axis_of_names(palette, side="top"),
        yaxis=axis_of_names(palette, autorange="reversed", automargin=True),
    )
    finding = agreement_words(agreement)
    return Picture(figure, f"Matrix of adjusted Rand indices between {len(names)} groupings. {finding}", finding)


def agreement_words(agreement: Sequence[dict[str, Any]]) -> str:
    """One sentence that reads the matrix against its floor."""
    table = {frozenset((row["first"], row["second"])): row for row in agreement}
    pairs = [row for row in agreement if row["first"] != row["second"]]
    if not pairs:
        return "Only one score was computed, so there is nothing to compare."
    row = min(pairs, key=lambda pair: pair["mean"])
    first, second = title(row["first"]), title(row["second"])
    if row["mean"] >= 1:
        return "All scores give the same groups here."
    floor = min((table[frozenset((name,))] for name in (row["first"], row["second"])), key=lambda pair: pair["mean"])
    if floor["least"] >= 1:
        return (
            f"{first} and {second} agree least, with {number(row['mean'], 2)}; this grouping has no randomness, so all of "
            "the difference comes from the scores."
        )
    seeds = f"{number(floor['mean'], 2)} ({number(floor['least'], 2)} to {number(floor['most'], 2)})"
    if row["mean"] >= floor["least"]:
        return (
            f"{first} and {second} agree least, with {number(row['mean'], 2)}, but two seeds of one score agree no better: "
            f"{seeds}. Not distinguishable from starting the clustering again."
        )
    return (
        f"{first} and {second} agree least, with {number(row['mean'], 2)}; two seeds of one score agree with {seeds}, so "
        "these scores do group differently."
    )


def _floor(table: dict[frozenset[str], dict[str, Any]], first: str, second: str) -> float:
    """The lower one of two scores' means between seeds."""
    return min(
        (table[frozenset((name,))]["mean"] for name in (first, second) if frozenset((name,)) in table), default=1.0
    )


def cluster_sizes(grouped: Neurons, palette: Palette) -> Picture:
    """How many clusters have one, two, three… members; hatched: members of one parent only."""
    counts = grouped.counts
    mixed = grouped.mixed
    bins = [(low, high) for low, high in SIZES if (counts >= low).any() or low == 1]
    names = [f"{low}" if low == high else f"{low}–{high}" if high < 10**9 else f"{low}+" for low, high in bins]
    traces = [
        bars(
            names,
            [int(((counts >= low) & (counts <= high) & chosen).sum()) for low, high in bins],
            name=label,
            marker=hatched(palette, colour, pattern),
            hovertemplate="%{x} members: %{y} clusters " + label + "<extra></extra>",
        )
        for label, chosen, colour, pattern in (
            ("of several networks", mixed, palette.accent, ""),
            ("of one network", ~mixed, palette.grey, "/"),
        )
    ]
    figure = plot(
        palette,
        traces,
        270,
        (4, 4, 34, 44),
        barmode="stack",
        legend=ABOVE,
        xaxis=axis("members of a cluster", type="category", showgrid=False),
        yaxis=axis("clusters", automargin=True),
    )
    shared = int(mixed.sum())
    finding = (
        f"{shared} of {grouped.width} clusters ({percent(100 * shared / grouped.width, 0)}) hold neurons of more "
        f"than one network; {int((counts == 1).sum())} hold a single neuron, the largest holds {int(counts.max())}."
    )
    return Picture(figure, f"Histogram of cluster sizes. {finding}", finding)
