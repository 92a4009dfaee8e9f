"""How a grouping's neurons are drawn, in a Plotly figure or on the page's own canvas."""

from dataclasses import dataclass

import numpy as np

from .counterparts import NAMED, counterparts
from .neurons import Neurons
from .palette import Palette
from .plane import frame, side_by_side
from .words import percent

#: Kinds of neurons by their cluster: 0 is the densest, 1 to 5 have a hue, then these two.
OTHER, ALONE = NAMED, NAMED + 1
FEW = 80  # most neurons for which lines join every cluster


@dataclass(frozen=True, eq=False)
class Marks:
    """A grouping's m neurons as drawn."""

    kinds: np.ndarray
    """(m,) densest cluster, hue, other or alone"""
    centre: np.ndarray
    """(2,) the frame's centre"""
    reach: float
    """Half of the frame's width"""
    points: np.ndarray
    """(m, 2) x and y: on the border for neurons outside the frame, side by side for a few at one spot"""
    inside: np.ndarray
    """(m,) whether a neuron is inside the frame"""
    joined: list[int]
    """Clusters whose members lines join: the densest or, if neurons are few, every one with several"""


def marks(grouped: Neurons, reference: Neurons | None = None, whole: bool = False) -> Marks:
    """How a grouping is drawn.

    Args:
        reference: the grouping whose clusters set the colours; by default this one.
        whole: whether the frame holds every neuron.
    """
    colours, several = counterparts(reference or grouped, grouped)[grouped.labels], grouped.counts[grouped.labels] > 1
    kinds = np.where(colours >= 0, colours, np.where(several, OTHER, ALONE))
    centre, reach = frame(grouped.points, whole)
    inside: np.ndarray = np.abs(grouped.points - centre).max(axis=1) <= reach * (1 + 1e-9)
    few = len(grouped.labels) <= FEW
    joined = np.flatnonzero(grouped.counts > 1) if few else np.unique(grouped.labels[colours == 0])
    points = side_by_side(np.clip(grouped.points, centre - reach, centre + reach), reach)
    return Marks(kinds, centre, reach, points, inside, joined.tolist())


def fills(palette: Palette) -> list[str]:
    """Each kind's colour; single neurons are hollow."""
    return [palette.ink, *palette.clusters, palette.grey, palette.paper]


def digits(span: float) -> int:
    """Decimals that round a coordinate to less than a pixel in a picture ten thousand pixels wide."""
    return int(4 - np.floor(np.log10(max(span, 1e-9))))


def cluster_words(grouped: Neurons, off: int) -> tuple[str, str]:
    """Alternative text and caption.

    Args:
        off: neurons outside the frame.
    """
    counts, largest = grouped.counts, int(grouped.counts.max())
    mixed = int(grouped.mixed.sum())
    facts = [
        f"{' + '.join(map(str, grouped.widths))} neurons in {grouped.width} groups",
        *([f"{mixed} with members of more than one network"] if len(grouped.widths) > 1 else []),
        f"largest {largest}" if largest > 1 else "no group has more than one member",
        f"{int((counts == 1).sum())} alone",
    ] + ([f"{off} outside the frame"] if off else [])
    alt = (
        f"Scatter plot of the neurons of level {grouped.name} on two principal components: {', '.join(facts)}. "
        f"The plane hides {percent(100 * grouped.hidden, 0)} of the variance"
    )
    return alt, f"{' · '.join(facts)} · PCA hides {percent(100 * grouped.hidden, 0)}"
