"""How a group is made: a row for each neuron, with its incoming weights, and the images that excite it most."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

import numpy as np

from .palette import Palette, mixed
from .words import listing

GAP = 0.08  # between two images, as a share of their side


@dataclass(frozen=True)
class Excited:
    """A neuron and its activity on some images."""

    name: str
    """ "fused neuron 3", "A12" """
    note: str
    """A remark on it"""
    values: tuple[float, ...]
    """Its activity on each image"""
    least: float
    most: float
    """The range of its activity on all examined images"""
    classes: tuple[str, ...]
    """The images' classes"""
    image: str = ""
    """A data URL of the images side by side; "" if the row above shows them"""
    weights: str = ""
    """A picture of its incoming weights, see `kernel`"""
    colour: str = ""
    """Of its bars; "" for the fused network's"""

    @property
    def shares(self) -> list[float]:
        """How far up its range each image brings it, 0 to 1."""
        span = self.most - self.least
        return [min(max((value - self.least) / span, 0.0), 1.0) if span > 0 else 0.0 for value in self.values]

    @property
    def alt(self) -> str:
        """The images' classes and its activity."""
        kinds = [f"{self.classes.count(kind)} of class {kind}" for kind in dict.fromkeys(self.classes)]
        return (
            f"{len(self.classes)} images on which {self.name} is most active: {listing(kinds)}; activity "
            f"{max(self.values):.3g} down to {min(self.values):.3g}."
        )


def exciting(rows: Sequence[Excited], palette: Palette) -> str:
    """The rows as HTML."""
    return f"<div class='retrofit-exciting' style='{palette.css}'>{''.join(map(_row, rows))}</div>"


def kernel(maps: np.ndarray, most: float, palette: Palette) -> str:
    """Incoming weights as a small picture, a data URL: a square for each input's weights, side by side; if an input has just
    one weight, all in a square.

    Args:
        maps: (inputs, high, wide).
        most: the weight of the full colour: the accent if it is positive, that of grouping errors if it is negative.
    """
    count, high, wide = maps.shape
    if high * wide == 1:
        across, step = math.ceil(count**0.5), 1
    else:
        across, step = count, wide + 1
    cells = [
        f"<rect x='{(index % across) * step + column}' y='{index // across + line}' width='1.04' height='1.04' "
        f"fill='{mixed(palette.paper, palette.accent if value > 0 else palette.grouping, min(abs(value) / most, 1.0))[0]}'/>"
        for index, each in enumerate(maps.tolist())
        for line, values in enumerate(each)
        for column, value in enumerate(values)
    ]
    down = math.ceil(count / across) if step == 1 else high
    size = f"viewBox='0 0 {across * step - (step > 1)} {down}'"
    drawing = f"<svg xmlns='http://www.w3.org/2000/svg' shape-rendering='crispEdges' {size}>{''.join(cells)}</svg>"
    return f"data:image/svg+xml,{quote(drawing)}"


def side_by_side(pictures: Sequence[tuple[str, str, str]]) -> str:
    """Small pictures as HTML.

    Args:
        pictures: name, remark and data URL of each.
    """
    figures = (
        f"<figure><img src='{url}' alt='{escape(name)}'>"
        f"<figcaption>{escape(name)}<span>{escape(note)}</span></figcaption></figure>"
        for name, note, url in pictures
    )
    return f"<div class='retrofit-heads'>{''.join(figures)}</div>"


def _row(row: Excited) -> str:
    name = row.name[:1].upper() + row.name[1:]
    picture = f"<img src='{row.image}' alt='{escape(row.alt, quote=True)}'>" if row.image else ""
    cells = "".join(
        f"<span title='{escape(f'{name} on an image of class {kind}: {value:.3g}', quote=True)}'>"
        f"<i style='width:{100 * share:.0f}%'></i><b>{value:.3g}</b>{f'<em>{escape(kind)}</em>' if row.image else ''}</span>"
        for value, share, kind in zip(row.values, row.shares, row.classes, strict=True)
    )
    weights = (
        f"<img class='weights' src='{row.weights}' alt='Incoming weights of {escape(name)}'>" if row.weights else ""
    )
    heading = f"<figcaption>{escape(name)}<span>{escape(row.note)}</span>{weights}</figcaption>"
    style = f"--across:{len(row.values)};--gap:{GAP}" + (f";--accent:{row.colour}" if row.colour else "")
    return f"<figure style='{style}'>{heading}<div>{picture}<div class='cells'>{cells}</div></div></figure>"
