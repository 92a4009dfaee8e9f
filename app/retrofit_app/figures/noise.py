"""How far chance alone moves an accuracy, and which differences are larger: one rule for tiles, bars, levels and lists."""

import math
from dataclasses import dataclass

from .words import number, signed

#: A share of 0 or 1 of n images has the margin 3/n (the rule of three, Hanley and Lippman-Hand 1983): 1.96^2 v / n = 9 / n^2.
LEAST_VARIANCE = 9 / 1.96**2


@dataclass(frozen=True)
class Difference:
    """Of two accuracies, in points."""

    points: float
    margin: float
    """Half the 95 % interval; infinite where the number of images is unknown"""

    @property
    def clear(self) -> bool:
        """Whether it is larger than chance explains."""
        return abs(self.points) > self.margin

    @property
    def words(self) -> str:
        """ "+2.8 ± 3.4 points"."""
        within = f"\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{number(self.margin)}" if math.isfinite(self.margin) else ""
        return f"{signed(self.points)}{within} points"


def margin(*accuracies: float, images: int) -> float:
    """Half the 95 % interval of an accuracy, or of the difference between two independent ones, in points.

    Args:
        accuracies: in per cent.
        images: on which each was measured; 0 for unknown, which makes it infinite.
    """
    if not images:
        return math.inf
    shares = [accuracy / 100 for accuracy in accuracies]
    return 196 * math.sqrt(sum(max(share * (1 - share), LEAST_VARIANCE / images) for share in shares) / images)


def difference(first: float, second: float, images: int) -> Difference:
    """How much larger the first accuracy is.

    Both are usually measured on the same images, which makes the true interval narrower; how much is not recorded.
    """
    return Difference(first - second, margin(first, second, images=images))


def interval(accuracy: float, images: int) -> str:
    """ "± 2.6", with spaces that do not break; empty where the number of images is unknown."""
    return f"±\N{NO-BREAK SPACE}{number(margin(accuracy, images=images))}" if images else ""
