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
    number: int | None = None
    """The parent's number, which gives its columns their colour"""

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
    inside = [
        f"<div class='row' style='--across:{len(row)}'>{''.join(_tile(tile, classes, palette) for tile in row)}</div>"
        for row in rows
        if row
    ]
    return f"<div class='retrofit-tiles' style='{palette.css};--rows:{len(inside)}'>{''.join(inside)}</div>"


def _tile(tile: Tile, classes: Sequence[str], palette: Palette) -> str:
    knows = [name for name, known in zip(classes, tile.knows(), strict=bool(tile.per_class)) if known]
    alt = f"{tile.name}: {tile.value}{' ' + tile.interval if tile.interval else ''}, {tile.note}"
    if tile.per_class:
        which = f" ({', '.join(knows)})" if knows and len(classes) <= LABELLED else ""
        alt += f"; knows {len(knows)} of {len(classes)} classes{which}"
    return tile_html(
        tile.name,
        tile.role,
        alt,
        tile.value,
        tile.interval,
        _columns(tile, classes) if tile.per_class else "",
        tile.note,
        fill=palette.parent(tile.number) if tile.number is not None else "",
    )


def tile_html(
    name: str,
    role: str,
    alt: str,
    value: str,
    beside: str,
    columns: str,
    note: str = "",
    kind: str = "",
    fill: str = "",
) -> str:
    """A tile: a network's name, a large value with small print beside it, `stands` in a colour, and a note of a kind (a CSS
    class)."""
    style = f" style='--fill:{fill}'" if fill else ""
    return (
        f"<div role='img' aria-label='{escape(alt, quote=True)}.' class='tile {role}'{style}>"
        f"<div class='name'>{escape(name)}</div>"
        f"<div class='value'>{escape(value)}<span>{escape(beside)}</span></div>"
        f"{columns}<div class='note {kind}'>{escape(note)}</div></div>"
    )


def _columns(tile: Tile, classes: Sequence[str]) -> str:
    """A column for each class, as high as its accuracy; hollow if the network was not trained on it.

    Bold: the classes it was trained on, if known.
    """
    guessed = tile.guessed or [False] * len(classes)
    # Nothing if nothing is recognised; a hollow column is high enough to look hollow.
    heights = [
        max(HOLLOW if hollow else 2.0, value) if value else 0.0
        for value, hollow in zip(tile.per_class, guessed, strict=True)
    ]
    tips = ["no test images" if value is None else percent(value, 0) for value in tile.per_class]
    return stands(classes, heights, tips, tile.seen or [False] * len(classes), guessed)


def stands(
    classes: Sequence[str],
    heights: Sequence[float],
    tips: Sequence[str],
    known: Sequence[bool],
    hollow: Sequence[bool] = (),
) -> str:
    """A column for each class.

    Args:
        heights: in per cent; 0 for no column.
        known: whose names are bold.
    """
    labelled = len(classes) <= LABELLED and max(map(len, classes)) <= SHORT
    columns = []
    for index, (name, height, tip) in enumerate(zip(classes, heights, tips, strict=True)):
        kind = "bar hollow" if hollow and hollow[index] else "bar"
        bar = f"<div class='{kind}' style='height:{height:.0f}%'></div>" if height else ""
        label = f"<div class='{'known' if known[index] else ''}'>{escape(name)}</div>" if labelled else ""
        title = escape(f"{name}: {tip}", quote=True)
        columns.append(f"<div title='{title}'><div class='stand'>{bar}</div>{label}</div>")
    return f"<div class='columns{'' if len(classes) <= OUTLINED else ' many'}'>{''.join(columns)}</div>"
