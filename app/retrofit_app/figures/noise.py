"""How far chance moves an accuracy, and which differences exceed it: one rule for all pages."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean
from typing import Any

import numpy as np

from retrofit_core.runs import answers

from .words import number, signed, within

#: A share of 0 or 1 of n images has margin 3/n (the rule of three, Hanley and Lippman-Hand 1983): 1.96^2 v / n = 9 / n^2.
LEAST_VARIANCE = 9 / 1.96**2
Facts = Mapping[str, Any]
"""A result of `evaluate`: accuracy, samples and, except in older records, knows (which samples are right)"""


@dataclass(frozen=True)
class Difference:
    """The difference of two accuracies, in points."""

    points: float
    ends: tuple[float, float] | None
    """95 % interval, paired image by image; None if the records do not say which images each network knows"""

    @property
    def clear(self) -> bool:
        """Whether chance cannot explain it."""
        return self.ends is not None and (self.ends[0] > 0 or self.ends[1] < 0)

    @property
    def words(self) -> str:
        """ "+2.8 (0.4 to 5.1)"."""
        return f"{signed(self.points)}{within(self.ends)}"

    def than(self, other: str) -> str:
        """In Markdown: "**clearly better than A** by 2.8 points (0.4 to 5.1)", with the other's name."""
        if self.ends is None:
            return f"{self.words} points against {other}"
        if not self.clear:
            return f"not clearly different from {other}: {signed(self.points)} points{within(self.ends)}"
        low, high = sorted(map(abs, self.ends))
        how = "better" if self.points > 0 else "worse"
        return f"**clearly {how} than {other}** by {number(abs(self.points))} points{within((low, high))}"


def difference(ours: Facts | Sequence[Facts], others: Facts | Sequence[Facts]) -> Difference:
    """How much larger the first accuracy is.

    Args:
        ours, others: results on the same images; of several networks, one for each seed, their means are compared.
    """
    both = [[each] if isinstance(each, Mapping) else list(each) for each in (ours, others)]
    points = fmean(each["accuracy"] for each in both[0]) - fmean(each["accuracy"] for each in both[1])
    images = {each["samples"] for each in (*both[0], *both[1])}
    bits = tuple(tuple(each.get("knows", "") for each in side) for side in both)
    return Difference(points, _ends(*bits, images.pop()) if len(images) == 1 and all(map(all, bits)) else None)


@lru_cache(maxsize=10_000)
def _ends(ours: tuple[str, ...], others: tuple[str, ...], images: int) -> tuple[float, float]:
    first, second = (np.stack([answers.from_bits(text, images) for text in side]) for side in (ours, others))
    return answers.difference(first, second)[1]


def margin(accuracy: float, images: int) -> float:
    """Half the 95 % interval of an accuracy in per cent, in points; infinite if the number of images is 0, unknown."""
    share = accuracy / 100
    return 196 * math.sqrt(max(share * (1 - share), LEAST_VARIANCE / images) / images) if images else math.inf


def interval(accuracy: float, images: int) -> str:
    """ "± 2.6" with a no-break space; empty if the number of images is unknown."""
    return f"±\N{NO-BREAK SPACE}{half(accuracy, images)}" if images else ""


def half(accuracy: float, images: int) -> str:
    """`interval` without its sign."""
    return number(margin(accuracy, images)) if images else ""
