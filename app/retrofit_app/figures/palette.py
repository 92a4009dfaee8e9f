"""The tokens of every picture: lettering, shapes, colours; checked for contrast and colour-vision deficiencies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

FONT = '"Source Sans", "Source Sans Pro", Arial, sans-serif'
TEXT = 14  # px, the smallest lettering in a figure
SHAPES = ("circle", "diamond", "square", "triangle-up", "pentagon", "cross")
#: The same shapes for captions.
GLYPHS = ("●", "◆", "■", "▲", "⬟", "✚")
#: Handed to every st.plotly_chart: nothing is sent anywhere, pictures are saved as SVG.
CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "showSendToCloud": False,
    "plotlyServerURL": "",
    "displayModeBar": False,
    "scrollZoom": False,
    "toImageButtonOptions": {"format": "svg"},
}


@dataclass(frozen=True)
class Palette:
    """One theme's colours."""

    paper: str
    ink: str
    muted: str
    accent: str
    line: str
    grey: str
    """Singletons, and networks that are not the subject"""
    outline: str
    hues: tuple[str, ...]
    alone: float
    """Opacity of singletons: less than 1 only where their outline keeps them visible"""

    def parent(self, index: int) -> str:
        """A parent's colour: for two of them neither that of grouping errors nor of approximation errors."""
        return self.hues[(index + 2) % len(self.hues)]

    @property
    def grouping(self) -> str:
        return self.hues[0]

    @property
    def approximation(self) -> str:
        return self.hues[1]


LIGHT = Palette(
    "#FFFFFF",
    "#111111",
    "#595955",
    "#0B6E6E",
    "#D9D9D4",
    "#8A8A85",
    "#3A3A38",
    ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"),
    0.55,
)
DARK = Palette(
    "#161614",
    "#F2F2F0",
    "#A9A9A4",
    "#4FC3BF",
    "#3A3A37",
    "#6F6F6C",
    "#0B0B0A",
    ("#4BA3E3", "#F0B429", "#2CC295", "#E79BC4", "#8CD3FF", "#FF8A4C"),
    1.0,
)


def scale(palette: Palette) -> tuple[str, str]:
    """From the page's own shade, so that "none" looks empty, to the accent."""
    return ("#232320", "#2F8F8B") if palette is DARK else ("#F4F4F1", palette.accent)


def shade(share: float, palette: Palette) -> tuple[str, str]:
    """A colour of that scale for a share of 0 to 1, and one of lettering that can be read on it."""
    low, high = ([int(end[at : at + 2], 16) for at in (1, 3, 5)] for end in scale(palette))
    mixed = [round(one * (1 - share) + other * share) for one, other in zip(low, high, strict=True)]
    ink = "#FFFFFF" if _luminance(mixed) < 0.18 else "#000000"
    return f"#{''.join(f'{value:02X}' for value in mixed)}", ink


def _luminance(rgb: Sequence[int]) -> float:
    """WCAG's relative luminance; white and black letters are equally readable at 0.18."""
    linear = [value / 255 / 12.92 if value <= 10 else ((value / 255 + 0.055) / 1.055) ** 2.4 for value in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
