"""The numbers that options take, whichever method, command or form they come through."""

from dataclasses import dataclass
from math import inf
from numbers import Integral, Real
from typing import Any


@dataclass(frozen=True)
class Range:
    """Numbers between two ends, which belong to it unless they are left out."""

    low: float
    high: float = inf
    whole: bool = False
    without_low: bool = False
    without_high: bool = False
    none: bool = False
    """Whether None may stand for "no limit" """

    def holds(self, value: Any) -> bool:
        """Whether a value, of any type, is one of these numbers; true, false, NaN and infinity are none."""
        if value is None:
            return self.none
        if isinstance(value, bool) or not isinstance(value, Integral if self.whole else Real):
            return False
        number: Any = value  # comparing is all that is asked of it
        above = self.low < number if self.without_low else self.low <= number
        below = number < self.high if self.without_high or self.high == inf else number <= self.high
        return bool(above and below)

    def __str__(self) -> str:
        low = f"{'above' if self.without_low else 'from'} {self.low}"
        high = "" if self.high == inf else f" {'and below' if self.without_high else 'to'} {self.high}"
        number = "a whole number" if self.whole else "a number"
        return f"{number} {low}{high}{', or none' * self.none}"


RANGES = {
    # torch.Generator takes more, but not every seed that is derived from one; numpy takes no negative ones.
    "seed": Range(0, 2**63 - 1, whole=True),
    "memory": Range(1, whole=True),
    "learning_rate": Range(0, without_low=True),
    "weight_decay": Range(0),
    "epochs": Range(0, whole=True),
    "batch_size": Range(1, whole=True),
    "validation": Range(0, 1, without_low=True, without_high=True),
    "patience": Range(0, whole=True, none=True),
    "perturbation": Range(0, 1),
    # Logits divided by less, or by much more, leave float32.
    "temperature": Range(0.001, 10_000),
    "budget": Range(0, none=True),
    "a": Range(0, 1),
    "b": Range(0, 1),
    "ratio": Range(0, 1),
    "apart": Range(0, 1),
    "window": Range(0, whole=True),
}


def check_ranges(**options: Any) -> None:
    """Refuse a value that the option of this name does not take.

    Raises:
        ValueError: names the option, the value and the range.
    """
    for name, value in options.items():
        if not RANGES[name].holds(value):
            raise ValueError(f"{name} is {value!r}. Use {RANGES[name]}.")
