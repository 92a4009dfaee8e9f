"""How similar groupings are, compared with two seeds of one score."""

from collections.abc import Sequence
from typing import Any

from .words import number


def title(score: str) -> str:
    """An importance score's name on the page; for a score that the library does not know, its recorded name."""
    from retrofit_core.fusion.importance import IMPORTANCE  # takes seconds; not every page needs it

    return (IMPORTANCE[score].title or score.capitalize().replace("_", " ")) if score in IMPORTANCE else score


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
