"""The quantities in the paper's tables, and their digits."""

import math
from dataclasses import dataclass

from .words import number


@dataclass(frozen=True)
class Quantity:
    """A measured quantity, and how it is written."""

    name: str
    """In a sentence: "test accuracy in per cent" """
    digits: int = 1
    is_log: bool = False
    """Whether numbers differ by orders of magnitude"""
    is_accuracy: bool = False
    """Whether parents and the ensemble are references, and test images give an interval"""

    def plain(self, value: float) -> str:
        """A number without its unit, with 3 significant digits if it may differ by orders of magnitude."""
        digits = self.digits if not self.is_log else max(0, 2 - math.floor(math.log10(abs(value) or 1)))
        return number(value, digits)


#: By `Column.metric`.
QUANTITIES = {
    "accuracy": Quantity("test accuracy in per cent", is_accuracy=True),
    "seconds": Quantity("seconds", is_log=True),
    "processor_seconds": Quantity("seconds of the processor", is_log=True),
    "operations": Quantity("multiply-adds for one image, in multiples of one network's", 2),
    "rand": Quantity("adjusted Rand index", 2),
    "below 0.1": Quantity("neurons with less than a tenth of the mean score, in per cent"),
    "landscape loss": Quantity("loss of the network", 2),
    "landscape accuracy": Quantity("accuracy on the landscape's images in per cent"),
    "landscape rise": Quantity("rise of the loss around the network", 2),
    "landscape barrier": Quantity("largest rise of the loss between two networks", 2),
}


def quantity(metric: str) -> Quantity:
    """A metric's quantity; "part 0", the accuracy on one part's classes, has fewer images and so no interval."""
    part = metric.removeprefix("part ")
    return QUANTITIES[metric] if part == metric else Quantity(f"accuracy on the classes of part {part} in per cent")
