"""Every picture's tokens: fonts, shapes, colours; checked for contrast and colour-vision deficiencies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plotly.colors import sequential

FONT = '"Source Sans", "Source Sans Pro", Arial, sans-serif'
TEXT = 14  # px, the smallest text in a figure
SHAPES = ("circle", "diamond", "square", "triangle-up", "pentagon", "cross")
#: The same shapes for captions.
GLYPHS = ("●", "◆", "■", "▲", "⬟", "✚")
#: For losses on a plane, and for text on it: white with a black outline, readable on any of its colours.
VIRIDIS = [[index / (len(sequential.Viridis) - 1), shade] for index, shade in enumerate(sequential.Viridis)]
AROUND = [(x, y) for x in (-2, -1, 0, 1, 2) for y in (-2, -1, 0, 1, 2) if 0 < x * x + y * y <= 4]
HALO = {"color": "#FFFFFF", "shadow": ", ".join(f"{x}px {y}px 0 #000" for x, y in AROUND)}
#: For every st.plotly_chart: nothing is sent anywhere, pictures are saved as SVG.
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
    """Clusters without their own colour, and networks in the background"""
    outline: str
    clusters: tuple[str, ...]
    """The largest clusters, except the densest, which is in ink"""
    networks: tuple[str, ...]
    grouping: str
    """Grouping errors, and errors in general"""
    approximation: str
    """Approximation errors, which are also hatched"""

    @property
    def css(self) -> str:
        """The colours as variables of an element's style."""
        names = ("paper", "ink", "muted", "accent", "line", "grey", "grouping")
        return ";".join(f"--{name}:{getattr(self, name)}" for name in names)

    def parent(self, index: int) -> str:
        """A network's colour, used for nothing else."""
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
    ("#0072B2", "#8C2D55", "#7C8B1F", "#56B4E9", "#9010D0", "#B07070", "#3C3C6E", "#D98A00"),
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
    ("#3B8EDB", "#D0487A", "#A8B43A", "#8CD3FF", "#D0B0D0", "#D0D090", "#9C8CFF", "#E0A050"),
    "#F0602B",
    "#FFE0C2",
)


def scale(palette: Palette) -> tuple[str, str]:
    """From near the page's colour, so that "none" looks empty, to a dark (or light) one used for no network or cluster."""
    return ("#232320", "#A9A9A2") if palette is DARK else ("#F4F4F1", "#55554F")


def shade(share: float, palette: Palette) -> tuple[str, str]:
    """The scale's colour for a share of 0 to 1, and a readable text colour on it."""
    return mixed(*scale(palette), share)


def mixed(first: str, second: str, share: float) -> tuple[str, str]:
    """The first colour with a share, 0 to 1, of the second, and a readable text colour on it."""
    low, high = ([int(end[at : at + 2], 16) for at in (1, 3, 5)] for end in (first, second))
    both = [round(one * (1 - share) + other * share) for one, other in zip(low, high, strict=True)]
    ink = "#FFFFFF" if _luminance(both) < 0.18 else "#000000"
    return f"#{''.join(f'{value:02X}' for value in both)}", ink


def _luminance(rgb: Sequence[int]) -> float:
    """WCAG's relative luminance; white and black letters are equally readable at 0.18."""
    linear = [value / 255 / 12.92 if value <= 10 else ((value / 255 + 0.055) / 1.055) ** 2.4 for value in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
