"""How far chance moves an accuracy, and which differences exceed it: one rule for tiles, bars, levels and lists."""

import math
from dataclasses import dataclass

from .words import number, signed

#: A share of 0 or 1 of n images has margin 3/n (the rule of three, Hanley and Lippman-Hand 1983): 1.96^2 v / n = 9 / n^2.
LEAST_VARIANCE = 9 / 1.96**2


@dataclass(frozen=True)
class Difference:
    """The difference of two accuracies, in points."""

    points: float
    margin: float
    """Half the 95 % interval; infinite if the number of images is unknown"""

    @property
    def clear(self) -> bool:
        """Whether chance cannot explain it."""
        return abs(self.points) > self.margin

    @property
    def words(self) -> str:
        """ "+2.8 ± 3.4 points"."""
        within = f"\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{number(self.margin)}" if math.isfinite(self.margin) else ""
        return f"{signed(self.points)}{within} points"

    def than(self, other: str) -> str:
        """In Markdown: "**clearly better than A** (+2.8 ± 1.4 points)", with the other's name."""
        if not self.clear:
            return f"not clearly different from {other} ({self.words})"
        return f"**clearly {'better' if self.points > 0 else 'worse'} than {other}** ({self.words})"


def margin(*accuracies: float, images: int) -> float:
    """Half the 95 % interval of an accuracy, or of the difference of two independent ones, in points.

    Args:
        accuracies: in per cent.
        images: the number each was measured on; 0 for unknown makes it infinite.
    """
    if not images:
        return math.inf
    shares = [accuracy / 100 for accuracy in accuracies]
    return 196 * math.sqrt(sum(max(share * (1 - share), LEAST_VARIANCE / images) for share in shares) / images)


def difference(first: float, second: float, images: int) -> Difference:
    """How much larger the first accuracy is.

    Both usually share their images, which makes the true interval narrower, but records do not say by how much.
    """
    return Difference(first - second, margin(first, second, images=images))


def interval(accuracy: float, images: int) -> str:
    """ "± 2.6" with a no-break space; empty if the number of images is unknown."""
    return f"±\N{NO-BREAK SPACE}{half(accuracy, images)}" if images else ""


def half(accuracy: float, images: int) -> str:
    """`interval` without its sign."""
    return number(margin(accuracy, images=images)) if images else ""
