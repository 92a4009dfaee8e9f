"""One image followed through a run's networks: each one's answer, and how it develops level by level."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .palette import Palette
from .tiles import stands, tile_html
from .words import letter, listing, percent


@dataclass(frozen=True)
class Answer:
    """One network's answer to an image."""

    name: str
    """ "parent 0", "average", "fused" or "ensemble"; or the level after which the fusion stops"""
    chances: tuple[float, ...]
    """Each class's probability, 0 to 1"""

    @property
    def best(self) -> int:
        """The most probable class."""
        return max(range(len(self.chances)), key=self.chances.__getitem__)


#: Names on tiles and in sentences, and roles.
TITLES = {"average": "Plain average", "fused": "Fused", "ensemble": "Ensemble"}
WORDS = {"average": "the plain average", "fused": "the fused network", "ensemble": "the ensemble"}
ROLES = {"average": "reference", "ensemble": "reference", "fused": "fused"}


def answers(rows: Sequence[Answer], classes: Sequence[str], truth: int | None, palette: Palette) -> str:
    """A tile for each network, as HTML: its answer, whether that is right, and a column for each class.

    Args:
        truth: the image's class; None if unknown.
    """
    tiles = "".join(_tile(row, classes, truth, palette) for row in rows)
    return (
        f"<div class='retrofit-tiles' style='{palette.css}'>"
        f"<div class='row' style='--across:{len(rows)}'>{tiles}</div></div>"
    )


def _tile(row: Answer, classes: Sequence[str], truth: int | None, palette: Palette) -> str:
    chance, verdict = percent(100 * row.chances[row.best], 0), _verdict(row.best, truth)
    parent = int(row.name.split()[1]) if row.name.startswith("parent ") else None
    name = TITLES[row.name] if parent is None else f"Network {letter(parent)}"
    fill = "" if parent is None else palette.parent(parent)
    words = f"{name} answers {classes[row.best]}, {chance}{', ' + verdict if verdict else ''}"
    heights = [max(100 * value, 1) for value in row.chances]
    tips = [percent(100 * value, 0) for value in row.chances]
    columns = stands(classes, heights, tips, [index == truth for index in range(len(classes))])
    role = ROLES.get(row.name, "parent")
    return tile_html(name, role, words, classes[row.best], chance, columns, verdict, verdict, fill)


def steps(rows: Sequence[Answer], classes: Sequence[str], truth: int | None, chosen: str, palette: Palette) -> str:
    """A row for each level, as HTML: the answer if the fusion stops there.

    Args:
        truth: as for `answers`.
        chosen: the highlighted level; "" for none.
    """
    inside = []
    for number, row in enumerate(rows, 1):
        verdict, best = _verdict(row.best, truth), row.best
        said = f"<b>{escape(classes[best])}</b><span>{percent(100 * row.chances[best], 0)}</span>"
        inside.append(
            f"<div class='level{' chosen' if row.name == chosen else ''}'><div class='name'>{number} · {escape(row.name)}</div>"
            f"<div class='said'>{said}<span class='{verdict}'>{verdict}</span></div></div>"
        )
    return f"<div class='retrofit-followed' style='{palette.css}'>{''.join(inside)}</div>"


def followed_words(
    shown: str, rows: Sequence[Answer], stops: Sequence[Answer], classes: Sequence[str], truth: int | None
) -> str:
    """Which networks are right or wrong, and at which level that is decided, as plain text.

    Args:
        shown: "Test image 3".
    """
    if truth is None:
        first = sorted(rows, key=lambda row: row.name != "fused")
        said = [f"{called(row.name)} says {classes[row.best]}" for row in first]
        return f"{shown}: {'; '.join(said)}."
    right = [called(row.name) for row in rows if row.best == truth]
    wrong = [f"{called(row.name)} ({classes[row.best]})" for row in rows if row.best != truth]
    words = [f"{shown} shows {classes[truth]}.", f"Right: {listing(right) if right else 'none of them'}."]
    words += [f"Wrong: {listing(wrong)}."] if wrong else []
    start = "ensemble" if any(row.name == "parent 1" for row in rows) else "parent 0"
    before = next((row.best == truth for row in rows if row.name == start), None)
    course = [before, *(stop.best == truth for stop in stops)]
    if stops and before is not None and course[0] != course[-1]:
        turn = max(index for index in range(1, len(course)) if course[index] != course[index - 1])
        what = "found" if course[-1] else "lost"
        words.append(f"The right answer is {what} at level {turn}, {stops[turn - 1].name}.")
    return " ".join(words)


def called(name: str) -> str:
    """A network's name in a sentence."""
    return letter(int(name.split()[1])) if name.startswith("parent ") else WORDS[name]


def _verdict(best: int, truth: int | None) -> str:
    return "" if truth is None else "right" if best == truth else "wrong"
