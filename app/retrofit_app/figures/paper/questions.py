"""Five questions on the method, each answered by one dot a column of the paper."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from ..palette import Palette
from ..picture import Picture
from ..words import listing
from .rows import OURS, at
from .signs import claim_dots

FINE_TUNED = "fine-tuned"


@dataclass(frozen=True)
class Question:
    """A question, and the paper's claims that answer it."""

    words: str
    asks: Callable[[Any], bool]
    """Whether a claim is one of them"""


def _against(opponent: str, tuned: bool = False) -> Callable[[Any], bool]:
    return lambda claim: (
        claim.left.startswith(OURS) and claim.right == opponent and (FINE_TUNED in claim.column) is tuned
    )


def _between_scores(claim: Any) -> bool:
    return claim.left.startswith(OURS) and claim.left.endswith(", conductance") and claim.right.endswith(", uniform")


QUESTIONS = {
    "average": Question("Does it beat the plain average?", _against("Average")),
    "ensemble": Question("Does it reach the ensemble?", _against("Ensemble")),
    "parent": Question("Does it beat the best parent?", _against("best parent")),
    "score": Question("Does conductance beat uniform importance?", _between_scores),
    "tuned": Question("Does the lead over the best parent survive fine-tuning?", _against("best parent", tuned=True)),
}


def answer(question: Question, summary: Any) -> dict[str, tuple[str, Any]]:
    """A row's name -> its setting and its claim: of each column at its fullest scale, that of our method with the paper's
    largest lead.

    Args:
        summary: a `Summary` of all tables.
    """
    claims: dict[str, tuple[str, Any]] = {}
    for count in summary.counts:
        for claim in filter(question.asks, count.claims):
            row = f"{count.table}, {claim.column}"
            if row not in claims or (claims[row][0] == count.badge and claim.paper > claims[row][1].paper):
                claims[row] = count.badge, claim
    return claims


def answer_words(claims: Mapping[str, tuple[str, Any]]) -> str:
    """In how many columns ours is clearly ahead, by setting, beside the paper's."""
    by_setting: dict[str, Counter[str]] = {}
    for badge, claim in claims.values():
        low, high = claim.interval
        verdict = "ahead" if low > 0 else "behind" if high < 0 else "undecided"
        by_setting.setdefault(badge, Counter())[verdict] += 1
    if not by_setting:
        return "Not measured yet at a scale that says something about accuracy."
    printed = sum(claim.paper > 0 for _, claim in claims.values())
    ours = [
        f"{badge}: {', '.join(f'{number} {verdict}' for verdict, number in count.most_common())}"
        for badge, count in by_setting.items()
    ]
    return f"In the paper ahead in {printed} of {len(claims)} columns. Ours, {'; '.join(ours)}."


def question_dots(question: Question, claims: Mapping[str, tuple[str, Any]], palette: Palette) -> Picture:
    """A dot plot of the answer, one row a column: the paper's difference and ours, with its setting."""
    names = [f"{escape(row)}{at(badge)}{', one seed' * (claim.seeds == 1)}" for row, (badge, claim) in claims.items()]
    methods = listing(sorted({claim.left.split(",")[0] for _, claim in claims.values()}))
    what = f"Dot plot of {len(names)} differences in accuracy, the paper's and ours, of {methods}"
    drawn = [claim for _, claim in claims.values()]
    return claim_dots(drawn, names, palette, what, answer_words(claims), question.words)
