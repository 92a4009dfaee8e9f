"""How similar groupings are, compared with two seeds of one score."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .drawing import cell_words, cells, name_axis, picture_of, rows
from .palette import LIGHT, Palette
from .picture import Picture
from .words import number

TINTED = 0.2  # the least range of the index that the tints span


def title(score: str) -> str:
    """An importance score's name on the page; for a score that the library does not know, its recorded name."""
    from retrofit_core.fusion.importance import IMPORTANCE  # takes seconds; not every page needs it

    return (IMPORTANCE[score].title or score.capitalize().replace("_", " ")) if score in IMPORTANCE else score


def agreement_matrix(agreement: Sequence[dict[str, Any]], palette: Palette) -> Picture:
    """Adjusted Rand indices between the scores' groupings; the diagonal, between seeds of one score, is the reference.

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
            spread = "" if row["least"] == row["most"] else f"<br>{number(row['least'], 2)}–{number(row['most'], 2)}"
            text[i][j] = f"<b>{number(row['mean'], 2)}</b>{f'{spread}<br>its seeds' if i == j else ''}"
    # Tints span the values' range: values are often so close that they would look alike.
    low = float(np.nanmin(values))
    high = max(float(np.nanmax(values)), low + TINTED)
    titles = [title(name) for name in names]
    traces = [
        cells(values, shades(palette), high, text, 3, zmin=low),
        cell_words(text, [[palette.ink] * len(names)] * len(names)),
    ]
    return picture_of(
        palette,
        traces,
        60 + 76 * len(names),
        f"Matrix of adjusted Rand indices between {len(names)} groupings",
        agreement_words(agreement),
        title="Adjusted Rand index between the groups of two scores",
        margin=(4, 4, 28, 4),
        xaxis=name_axis(palette, titles, side="top"),
        yaxis=rows(palette, titles, automargin=True, ticklabelstandoff=0),
    )


def shades(palette: Palette) -> tuple[str, str]:
    """The matrix's extreme colours, both light enough (or dark) for the page's text colour."""
    return ("#F7F7F4", "#A9CBE8") if palette is LIGHT else ("#232320", "#2B4E6E")


def agreement_words(agreement: Sequence[dict[str, Any]]) -> str:
    """One sentence that compares the matrix with its diagonal."""
    table = {frozenset((row["first"], row["second"])): row for row in agreement}
    pairs = [row for row in agreement if row["first"] != row["second"]]
    if not pairs:
        return "Only one score was computed, so there is nothing to compare."
    row = min(pairs, key=lambda pair: pair["mean"])
    first, second = title(row["first"]), title(row["second"])
    if row["mean"] >= 1:
        return "All scores give the same groups here."
    least = f"{first} and {second} agree least, with {number(row['mean'], 2)}."
    floor = min((table[frozenset((name,))] for name in (row["first"], row["second"])), key=lambda pair: pair["mean"])
    if floor["least"] >= 1:
        return f"{least} This grouping has no randomness, so the whole difference comes from the scores."
    seeds = f"{number(floor['mean'], 2)} ({number(floor['least'], 2)} to {number(floor['most'], 2)})"
    if row["mean"] >= floor["least"]:
        return f"{least} Two seeds of one score agree with {seeds}, so this may be the chance of another start."
    return f"{least} Two seeds of one score agree better, with {seeds}, so these scores do group differently."


def index_words(agreement: Sequence[dict[str, Any]], first: str, second: str) -> str:
    """Two scores' index beside its noise floor: "ARI 0.72 (seeds 0.80)"; empty if it was not computed."""
    table = {frozenset((row["first"], row["second"])): row for row in agreement}
    if (row := table.get(frozenset((first, second)))) is None:
        return ""
    floor = "" if first == second else f" (seeds {number(_floor(table, first, second), 2)})"
    return f"ARI {number(row['mean'], 2)}{floor}"


def _floor(table: dict[frozenset[str], dict[str, Any]], first: str, second: str) -> float:
    """The lower of two scores' means between seeds."""
    return min(
        (table[frozenset((name,))]["mean"] for name in (first, second) if frozenset((name,)) in table), default=1.0
    )
