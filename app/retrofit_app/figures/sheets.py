"""Which network saw how many images of which classes: a strip of counts."""

from collections.abc import Sequence
from html import escape

from .palette import Palette, mixed, scale

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
