"""Contact sheets: a column of images for each class that a network saw, higher if it saw more."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .palette import Palette
from .words import listing

MOST_CLASSES = 12  # columns of a sheet
ROWS = 3  # images of the most frequent class
SHORT = 3  # letters that fit below a column


@dataclass(frozen=True)
class Sheet:
    """The training images of one network."""

    name: str
    classes: tuple[str, ...]
    """The columns' classes"""
    counts: tuple[int, ...]
    """Its training images of each class"""
    total: int
    """All its training images"""
    rows: tuple[int, ...]
    """Images in each column, 0 for a class it never saw"""
    image: str = ""
    """The picture's data URL; "" if it is not ready"""

    @property
    def alt(self) -> str:
        """The picture's alternative text."""
        seen = [name for name, count in zip(self.classes, self.counts, strict=True) if count]
        return f"{sum(self.rows)} of the {self.total} training images of {self.name}, of {_classes(seen)}"


def columns_of(counts: Sequence[Sequence[int]]) -> list[int]:
    """The classes that all networks' sheets show as columns: all, or those with most images.

    Args:
        counts: training images of each class, a row for each network.
    """
    together = [sum(column) for column in zip(*counts, strict=True)]
    return sorted(sorted(range(len(together)), key=lambda index: -together[index])[:MOST_CLASSES])


def rows_of(counts: Sequence[int], most: int) -> tuple[int, ...]:
    """How many images represent these counts, if ROWS images represent `most`."""
    return tuple(math.ceil(ROWS * count / most) for count in counts)


def sheets(sheets_of_networks: Sequence[Sheet], palette: Palette) -> str:
    """The sheets side by side as HTML; one below the other if they do not fit."""
    return f"<div class='retrofit-sheets' style='{palette.css}'>{''.join(map(_sheet, sheets_of_networks))}</div>"


def _sheet(sheet: Sheet) -> str:
    alt, high = escape(sheet.alt, quote=True), max(*sheet.rows, 1)
    picture = (
        f"<img src='{sheet.image}' alt='{alt}.'>" if sheet.image else f"<div role='img' aria-label='{alt}.'></div>"
    )
    upright = " upright" if max(map(len, sheet.classes)) > SHORT else ""
    labels = "".join(
        f"<span class='{'known' if count else ''}' title='{escape(f'{name}: {count:,} images', quote=True)}'>"
        f"{escape(name)}</span>"
        for name, count in zip(sheet.classes, sheet.counts, strict=True)
    )
    return (
        f"<figure style='--across:{len(sheet.classes)};--high:{high}'>"
        f"<figcaption>{escape(sheet.name[:1].upper() + sheet.name[1:])}<span>{sheet.total:,} images</span></figcaption>"
        f"<div class='picture'>{picture}</div><div class='labels{upright}' aria-hidden='true'>{labels}</div></figure>"
    )


def _classes(names: Sequence[str]) -> str:
    return f"class {names[0]}" if len(names) == 1 else f"the classes {listing(names)}"
