"""A run's networks as tiles: each one's accuracy with its margin, and the classes it knows."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .palette import Palette
from .words import percent

LABELLED = 20  # most classes for which columns have names
KNOWN = 5.0  # the accuracy in per cent from which a network counts as knowing a class
SHORT = 3  # letters that fit below a column
HOLLOW = 10.0  # per cent, the least height of a hollow column
OUTLINED = 40  # most classes for which columns have room for outlines


@dataclass(frozen=True)
class Tile:
    """One network, or several that share a tile."""

    name: str
    value: str
    """The accuracy in words, or a substitute"""
    interval: str
    note: str
    role: str = "parent"
    """parent, reference or fused"""
    per_class: Sequence[float | None] = ()
    """In per cent; () for no columns"""
    seen: Sequence[bool] = ()
    """Which classes it has training images of; () if unknown"""

    @property
    def guessed(self) -> list[bool]:
        """For each class, whether it recognises some images without training on it: a hollow column."""
        return [bool(value) and not was_seen for value, was_seen in zip(self.per_class, self.seen, strict=False)]

    def knows(self) -> list[bool]:
        """For each class, whether it was trained on it or, if that is unknown, recognises it."""
        return list(self.seen) if self.seen else [(value or 0) >= KNOWN for value in self.per_class]


def tiles(rows: Sequence[Sequence[Tile]], classes: Sequence[str], palette: Palette) -> str:
    """Rows of tiles as HTML; on narrow screens two side by side, and a fused one alone.

    Args:
        classes: names, in the order of each tile's `per_class`.
    """
    colours = f"--ink:{palette.ink};--muted:{palette.muted};--line:{palette.line};--accent:{palette.accent};--grey:{palette.grey}"
    inside = [
        f"<div class='row' style='--across:{len(row)}'>{''.join(_tile(tile, classes) for tile in row)}</div>"
        for row in rows
        if row
    ]
    return f"<div class='retrofit-tiles' style='{colours};--rows:{len(inside)}'>{''.join(inside)}</div>"


def _tile(tile: Tile, classes: Sequence[str]) -> str:
    knows = [name for name, known in zip(classes, tile.knows(), strict=bool(tile.per_class)) if known]
    alt = f"{tile.name}: {tile.value}{' ' + tile.interval if tile.interval else ''}, {tile.note}"
    if tile.per_class:
        which = f" ({', '.join(knows)})" if knows and len(classes) <= LABELLED else ""
        alt += f"; knows {len(knows)} of {len(classes)} classes{which}"
    return (
        f"<div role='img' aria-label='{escape(alt, quote=True)}.' class='tile {tile.role}'>"
        f"<div class='name'>{escape(tile.name)}</div>"
        f"<div class='value'>{escape(tile.value)}<span>{escape(tile.interval)}</span></div>"
        f"{_columns(tile, classes) if tile.per_class else ''}<div class='note'>{escape(tile.note)}</div></div>"
    )


def _columns(tile: Tile, classes: Sequence[str]) -> str:
    """A column for each class, as high as its accuracy; hollow if the network was not trained on it.

    Bold: the classes it was trained on, if known.
    """
    labelled = len(classes) <= LABELLED and max(map(len, classes)) <= SHORT
    columns = []
    trained = tile.seen or [None] * len(classes)
    guessed = tile.guessed or [False] * len(classes)
    for name, value, was_seen, hollow in zip(classes, tile.per_class, trained, guessed, strict=True):
        label = f"<div class='{'known' if was_seen else ''}'>{escape(name)}</div>" if labelled else ""
        # Nothing if nothing is recognised; a hollow column is high enough to look hollow.
        height = max(HOLLOW if hollow else 2.0, value) if value else 0.0
        tip = escape(f"{name}: {'no test images' if value is None else percent(value, 0)}", quote=True)
        columns.append(
            f"<div title='{tip}'><div class='stand'>"
            + (
                f"<div class='{'bar hollow' if hollow else 'bar'}' style='height:{height:.0f}%'></div>"
                if height
                else ""
            )
            + f"</div>{label}</div>"
        )
    return f"<div class='columns{'' if len(classes) <= OUTLINED else ' many'}'>{''.join(columns)}</div>"
