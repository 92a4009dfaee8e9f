"""The images that excite neurons most: a row of images per neuron, with its activity below each."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .palette import Palette
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
