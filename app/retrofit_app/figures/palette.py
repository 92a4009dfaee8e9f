"""The tokens of every picture: lettering, shapes, colours; checked for contrast and colour-vision deficiencies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plotly.colors import sequential

FONT = '"Source Sans", "Source Sans Pro", Arial, sans-serif'
TEXT = 14  # px, the smallest lettering in a figure
SHAPES = ("circle", "diamond", "square", "triangle-up", "pentagon", "cross")
#: The same shapes for captions.
GLYPHS = ("●", "◆", "■", "▲", "⬟", "✚")
#: Of losses on a plane, and of words on it: white with a black outline, which are read on any of its colours.
VIRIDIS = [[index / (len(sequential.Viridis) - 1), shade] for index, shade in enumerate(sequential.Viridis)]
AROUND = [(x, y) for x in (-2, -1, 0, 1, 2) for y in (-2, -1, 0, 1, 2) if 0 < x * x + y * y <= 4]
HALO = {"color": "#FFFFFF", "shadow": ", ".join(f"{x}px {y}px 0 #000" for x, y in AROUND)}
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
    """Clusters without a colour of their own, and networks that are not the subject"""
    outline: str
    clusters: tuple[str, ...]
    """Of the largest clusters but one, which is in ink"""
    networks: tuple[str, ...]
    grouping: str
    """Of grouping errors, and of errors as a whole"""
    approximation: str
    """Of approximation errors, which are hatched, too"""

    def parent(self, index: int) -> str:
        """A network's colour, which nothing else has."""
        return self.networks[index % len(self.networks)]


LIGHT = Palette(
    "#FFFFFF",
    "#111111",
    "#595955",
    "#0B6E6E",
    "#D9D9D4",
    "#8A8A85",
    "#3A3A38",
    ("#E69F00", "#009E73", "#9D8DF1", "#CC79A7", "#F0E442"),
    ("#0072B2", "#8C2D55", "#7C8B1F", "#56B4E9", "#9010D0", "#B07070"),
    "#C2410C",
    "#FBCB9A",
)
DARK = Palette(
    "#161614",
    "#F2F2F0",
    "#A9A9A4",
    "#4FC3BF",
    "#3A3A37",
    "#6F6F6C",
    "#0B0B0A",
    ("#F0A000", "#1FB889", "#B3A4FF", "#D66BA8", "#F5E663"),
    ("#3B8EDB", "#D0487A", "#A8B43A", "#8CD3FF", "#D0B0D0", "#D0D090"),
    "#F0602B",
    "#FFE0C2",
)


def scale(palette: Palette) -> tuple[str, str]:
    """From the page's own shade, so that "none" looks empty, to a dark (or light) one that is no network's and no cluster's."""
    return ("#232320", "#A9A9A2") if palette is DARK else ("#F4F4F1", "#55554F")


def shade(share: float, palette: Palette) -> tuple[str, str]:
    """A colour of that scale for a share of 0 to 1, and one of lettering that can be read on it."""
    return mixed(*scale(palette), share)


def mixed(first: str, second: str, share: float) -> tuple[str, str]:
    """So much of the second colour in the first, 0 to 1, and a colour of lettering that can be read on it."""
    low, high = ([int(end[at : at + 2], 16) for at in (1, 3, 5)] for end in (first, second))
    both = [round(one * (1 - share) + other * share) for one, other in zip(low, high, strict=True)]
    ink = "#FFFFFF" if _luminance(both) < 0.18 else "#000000"
    return f"#{''.join(f'{value:02X}' for value in both)}", ink


def _luminance(rgb: Sequence[int]) -> float:
    """WCAG's relative luminance; white and black letters are equally readable at 0.18."""
    linear = [value / 255 / 12.92 if value <= 10 else ((value / 255 + 0.055) / 1.055) ** 2.4 for value in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
