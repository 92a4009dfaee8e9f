"""Places for labels beside their marks, so that they touch neither each other nor a mark."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Box = tuple[float, float, float, float]
"""Left, low, right and high, in px"""
Place = TypeVar("Place", bound=Hashable)
OUTSIDE = 40  # the price of a px beyond the frame, in covered px²
LEAST = 1e-6  # px²; less is a rounding error


def shared(one: Box, other: Box) -> float:
    """The area that two boxes share."""
    across, up = min(one[2], other[2]) - max(one[0], other[0]), min(one[3], other[3]) - max(one[1], other[1])
    return max(across, 0.0) * max(up, 0.0)


def placed(marks: Sequence[Box], choices: Sequence[Mapping[Place, Box]], frame: Box) -> list[Place]:
    """Each label's place: the first of its choices that is free and within the frame, else where it covers least."""
    taken, places = list(marks), []
    for index in range(len(marks)):
        prices = {}
        for place, (left, low, right, high) in choices[index].items():
            beyond = sum(max(gap, 0) for gap in (frame[0] - left, right - frame[2], frame[1] - low, high - frame[3]))
            prices[place] = OUTSIDE * beyond + sum(shared(choices[index][place], box) for box in taken)
            if prices[place] < LEAST:
                break
        best = min(prices, key=prices.__getitem__)
        places.append(best)
        taken.append(choices[index][best])
    return places
