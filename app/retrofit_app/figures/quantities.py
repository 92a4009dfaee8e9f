"""The quantities in the paper's tables: axis, digits, words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .drawing import log_ticks
from .words import number


@dataclass(frozen=True)
class Quantity:
    """A measured quantity, and how it is written and drawn."""

    name: str
    """In a sentence: "test accuracy in per cent" """
    unit: str = ""
    """After a number, with its space"""
    digits: int = 1
    whole: tuple[float, float] | None = None
    """The axis' ends; None: the numbers' range, including 0"""
    is_log: bool = False
    is_accuracy: bool = False
    """Whether parents and the ensemble are references, and test images give an interval"""

    def plain(self, value: float) -> str:
        """A number without its unit, with 3 significant digits if the axis is logarithmic."""
        digits = self.digits if not self.is_log else max(0, 2 - math.floor(math.log10(abs(value) or 1)))
        return number(value, digits)

    def words(self, value: float) -> str:
        """A number with its unit."""
        return f"{self.plain(value)}{self.unit}"

    def axis(self, values: Sequence[float]) -> dict[str, Any]:
        """Plotly's settings of an axis for these numbers."""
        plain = {"ticksuffix": self.unit}
        if self.is_log:
            powers = [math.log10(value) for value in values if value > 0] or [0.0]
            ends = [min(powers) - 0.15, max(powers) + 0.15]
            ticks = {"dtick": 1} if ends[1] - ends[0] > 1 else log_ticks(ends[0], ends[1], unit=self.unit)
            return {**plain, "type": "log", "range": ends, **ticks}
        if self.whole is not None:
            return {**plain, "range": list(self.whole)}
        reach = [min(0.0, *values), max(0.0, *values)]
        room = 0.06 * ((reach[1] - reach[0]) or 1.0)
        return {**plain, "range": [reach[0] - (room if reach[0] < 0 else 0), reach[1] + room]}


PERCENT = "\N{NO-BREAK SPACE}%"
ACCURACY = Quantity("test accuracy in per cent", PERCENT, 1, (0, 100), is_accuracy=True)
#: By `Column.metric`.
QUANTITIES = {
    "accuracy": ACCURACY,
    "seconds": Quantity("seconds", "\N{NO-BREAK SPACE}s", is_log=True),
    "processor_seconds": Quantity("seconds of the processor", "\N{NO-BREAK SPACE}s", is_log=True),
    "operations": Quantity("multiply-adds for one image, in multiples of one network's", "\N{MULTIPLICATION SIGN}", 2),
    "rand": Quantity("adjusted Rand index", digits=2, whole=(0, 1)),
    "below 0.1": Quantity("neurons with less than a tenth of the mean score, in per cent", PERCENT, 1, (0, 100)),
    "landscape loss": Quantity("loss of the network", digits=2),
    "landscape accuracy": Quantity("accuracy on the landscape's images in per cent", PERCENT, 1, (0, 100)),
    "landscape rise": Quantity("rise of the loss around the network", digits=2),
    "landscape barrier": Quantity("largest rise of the loss between two networks", digits=2),
}


def quantity(metric: str) -> Quantity:
    """A metric's quantity; "part 0", the accuracy on one part's classes, has fewer images and so no interval."""
    part = metric.removeprefix("part ")
    if part != metric:
        return Quantity(f"accuracy on the classes of part {part} in per cent", PERCENT, 1, (0, 100))
    return QUANTITIES[metric]
