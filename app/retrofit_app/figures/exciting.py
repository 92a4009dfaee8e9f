"""The images that excite neurons most: a row of images for each neuron, and below every image how active it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .palette import Palette
from .words import listing

GAP = 0.08  # between two images, in multiples of their side


@dataclass(frozen=True)
class Excited:
    """One neuron, and how active it is on some images."""

    name: str
    """ "fused neuron 3", "A12" """
    note: str
    """What else there is to say of it"""
    values: tuple[float, ...]
    """Its activity on each image"""
    least: float
    most: float
    """The range of its activity on all images that were looked at"""
    classes: tuple[str, ...]
    """Of the images"""
    image: str = ""
    """A data address of the images side by side; "" where they are those of the row above"""

    @property
    def shares(self) -> list[float]:
        """How far up its own range each of the images brings it, 0 to 1."""
        span = self.most - self.least
        return [min(max((value - self.least) / span, 0.0), 1.0) if span > 0 else 0.0 for value in self.values]

    @property
    def alt(self) -> str:
        """What the images show, and how active it is."""
        kinds = [f"{self.classes.count(kind)} of class {kind}" for kind in dict.fromkeys(self.classes)]
        return (
            f"{len(self.classes)} images on which {self.name} is most active: {listing(kinds)}; activity "
            f"{max(self.values):.3g} down to {min(self.values):.3g}."
        )


def exciting(rows: Sequence[Excited], palette: Palette) -> str:
    """The rows below each other, as HTML."""
    colours = f"--ink:{palette.ink};--muted:{palette.muted};--line:{palette.line};--accent:{palette.accent}"
    return f"<div class='retrofit-exciting' style='{colours}'>{''.join(map(_row, rows))}</div>"


def _row(row: Excited) -> str:
    name = row.name[:1].upper() + row.name[1:]
    picture = f"<img src='{row.image}' alt='{escape(row.alt, quote=True)}'>" if row.image else ""
    cells = "".join(
        f"<span title='{escape(f'{name} on an image of class {kind}: {value:.3g}', quote=True)}'>"
        f"<i style='width:{100 * share:.0f}%'></i><b>{value:.3g}</b>{f'<em>{escape(kind)}</em>' if row.image else ''}</span>"
        for value, share, kind in zip(row.values, row.shares, row.classes, strict=True)
    )
    heading = f"<figcaption>{escape(name)}<span>{escape(row.note)}</span></figcaption>"
    style = f"--across:{len(row.values)};--gap:{GAP}"
    return f"<figure style='{style}'>{heading}<div>{picture}<div class='cells'>{cells}</div></div></figure>"
