"""The networks of a run as tiles: how good each is, within what chance allows, and which classes it knows."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .palette import Palette
from .words import percent

LABELLED = 20  # classes up to which every column may have its name
KNOWN = 5.0  # per cent of a class right, from which on a network counts as knowing it
SHORT = 3  # letters that fit below a column
HOLLOW = 10.0  # per cent, the least height of a hollow column
OUTLINED = 40  # classes up to which a column has room for an outline


@dataclass(frozen=True)
class Tile:
    """One network, or several that share a tile."""

    name: str
    value: str
    """The accuracy in words, or what stands in its place"""
    interval: str
    note: str
    role: str = "parent"
    """parent, reference or fused"""
    per_class: Sequence[float | None] = ()
    """In per cent; () for no columns"""
    seen: Sequence[bool] = ()
    """Classes with training images; () where that is unknown"""

    @property
    def guessed(self) -> list[bool]:
        """For each class, whether it recognises some of it, though it never saw it in training: a hollow column."""
        return [bool(value) and not was_seen for value, was_seen in zip(self.per_class, self.seen, strict=False)]

    def knows(self) -> list[bool]:
        """For each class, whether it was trained on it, or at least recognises it."""
        return list(self.seen) if self.seen else [(value or 0) >= KNOWN for value in self.per_class]


def tiles(rows: Sequence[Sequence[Tile]], classes: Sequence[str], palette: Palette) -> str:
    """Rows of tiles as HTML; on a narrow screen two stand beside each other, and a fused one alone.

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
    """A column for each class, as high as the share of it that is recognised; hollow where it was never seen in training.

    Bold: the classes that the network was trained on, where that is known.
    """
    labelled = len(classes) <= LABELLED and max(map(len, classes)) <= SHORT
    columns = []
    trained = tile.seen or [None] * len(classes)
    guessed = tile.guessed or [False] * len(classes)
    for name, value, was_seen, hollow in zip(classes, tile.per_class, trained, guessed, strict=True):
        label = f"<div class='{'known' if was_seen else ''}'>{escape(name)}</div>" if labelled else ""
        # Nothing where nothing is recognised; a hollow one high enough to be seen as that.
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
