"""Which network saw which classes: contact sheets, a column of images for each class, higher if it saw more; a strip of
counts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .palette import Palette, mixed, scale
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


# --- counts of images -----------------------------------------------------------------------------

NUMBERED = 20  # most classes for which cells have numbers


def split_strip(
    counts: Sequence[Sequence[int]], classes: Sequence[str], networks: Sequence[str], palette: Palette
) -> str:
    """Each network's (rows) training images of each class (columns); transposed on narrow screens.

    Cells are shaded by count, in the network's colour, and contain the number, or "·" for none, so that colour alone says
    nothing.

    Args:
        counts: one row of class counts per network.
    """
    most = max((value for row in counts for value in row), default=0) or 1
    numbered = len(classes) <= NUMBERED

    def cell(value: int, tip: str, style: str = "") -> str:
        return f"<td title='{escape(tip, quote=True)}' style='{style}'>{(value or '·') if numbered else ''}</td>"

    def row(index: int) -> str:
        name, values = networks[index], counts[index]
        shades = [mixed(scale(palette)[0], palette.parent(index), 0.85 * value / most) for value in values]
        cells = [
            cell(value, f"{name}, class {of}: {value}", f"background:{colour};color:{ink}")
            for of, value, (colour, ink) in zip(classes, values, shades, strict=True)
        ]
        return f"<tr><th scope='row'>{escape(name)}</th>{''.join(cells)}{cell(sum(values), f'{name}, all')}</tr>"

    heads = (
        f"<th scope='col' title='{escape(name, quote=True)}'>{escape(name) if numbered else ''}</th>"
        for name in (*classes, "all")
    )
    alt = escape(f"Training images per class and network. {split_words(counts, classes, networks)}", quote=True)
    size = f"--classes:{len(classes)};--rows:{len(classes) + 2};--networks:{len(networks)}"
    return (
        f"<table class='retrofit-split{' numbered' if numbered else ''}' style='{palette.css};{size}' aria-label='{alt}'>"
        f"<thead><tr><td></td>{''.join(heads)}</tr></thead><tbody>{''.join(map(row, range(len(counts))))}</tbody></table>"
    )


def split_words(counts: Sequence[Sequence[int]], classes: Sequence[str], networks: Sequence[str]) -> str:
    """What the strip shows beside its numbers; empty for a single network."""
    owners = [sum(row[index] > 0 for row in counts) for index in range(len(classes))]
    alone = sum(count == 1 for count in owners)
    if len(networks) == 1:
        return ""
    if alone == len(classes):
        return "No class is seen by two networks."
    if all(list(row) == list(counts[0]) for row in counts):
        return f"Each network gets the same {sum(counts[0])} images of {len(classes)} classes."
    shares = [
        max(row[index] for row in counts) / (sum(row[index] for row in counts) or 1) for index in range(len(classes))
    ]
    worst = max(range(len(classes)), key=shares.__getitem__)
    # Counts, not shares: networks may have seen the same images.
    fewest, *_, most = sorted((row[worst], name) for row, name in zip(counts, networks, strict=True))
    return (
        f"Most unequal: {most[1]} saw {most[0]:,} image{'' if most[0] == 1 else 's'} of class {classes[worst]}, {fewest[1]} "
        f"{fewest[0]:,}."
    )
