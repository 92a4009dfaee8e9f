"""Each network's accuracy: bars with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .drawing import NOTHING, bars, drawn, edge, lettering, room, rows, spread
from .noise import interval, margin
from .palette import Palette
from .picture import Picture
from .words import share


@dataclass(frozen=True)
class Network:
    """One measured network: a row of the accuracy figures."""

    name: str
    role: str
    """parent, reference or fused"""
    accuracy: float
    per_class: Sequence[float | None]
    chosen: bool = False
    samples: int = 0
    """Test images it was measured on; 0 if unknown, then without interval"""

    @property
    def words(self) -> str:
        """ "network A 49.6 ± 5.2"."""
        return f"{self.name} {share(self.accuracy)} {interval(self.accuracy, self.samples)}".strip()

    @property
    def heading(self) -> str:
        """Its row's name, bold if it is chosen."""
        return f"<b>{escape(self.name)}</b>" if self.chosen else escape(self.name)


def accuracy_bars(networks: Sequence[Network], palette: Palette) -> Picture:
    """Accuracy of each network with its 95 % interval; parents and references in grey, fused networks in the accent."""
    margins = [margin(network.accuracy, images=network.samples) if network.samples else 0.0 for network in networks]
    headings, accuracies = [network.heading for network in networks], [network.accuracy for network in networks]
    # Hatching repeats what colour says.
    shapes = ["/" if network.role == "reference" else "" for network in networks]
    look = {
        "color": [palette.accent if network.role == "fused" else palette.grey for network in networks],
        "line": edge([palette.ink if network.chosen else NOTHING for network in networks], 2),
        "pattern": {"shape": shapes, "fillmode": "overlay", "fgcolor": palette.paper, "size": 7, "solidity": 0.25},
    }
    traces = [
        bars(
            accuracies,
            headings,
            "%{customdata} %",
            orientation="h",
            width=0.68,
            marker=look,
            error_x=spread(margins, palette.ink, visible=any(margins)),
            customdata=[network.words for network in networks],
        ),
        lettering(  # right of the interval, not on it
            [accuracy + each for accuracy, each in zip(accuracies, margins, strict=True)],
            headings,
            [f"  {share(accuracy)}" for accuracy in accuracies],
            textposition="middle right",
        ),
    ]
    return drawn(
        palette,
        traces,
        44 + 34 * len(networks),
        f"Bar chart of test accuracy in per cent: {', '.join(network.words for network in networks)}",
        margin=(room(headings), 4, 30, 10),
        xaxis={"range": [0, 118], "tickvals": [0, 50, 100], "ticktext": ["0", "50", "100 %"], "side": "top"},
        yaxis=rows(palette),
    )
