"""Colours and frame that landscape pictures share, so that they can be compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from ..drawing import colour_key
from ..palette import Palette
from ..words import number

#: The loss at which the paper clips its landscape; compared landscapes use it, too.
PAPER = 4.6
#: A landscape's own scale goes up to this multiple of its networks' and paths' losses.
ROOM = 1.5
#: Kinds of pictures, named after their values.
KINDS = ("loss", "accuracy")


@dataclass(frozen=True)
class Scale:
    """Colours and extent that pictures may share."""

    loss: tuple[float, float] = (0.0, PAPER)
    accuracy: tuple[float, float] = (0.0, 100.0)
    clip: float | None = PAPER
    """Losses above it are hatched"""
    extent: tuple[float, float] | None = None
    """The frame's width and height, in distances between weights; None for the landscape's own"""


def own_scale(survey: Any) -> Scale:
    """The colours that show most of a landscape: from its least loss to well above its networks and paths.

    Higher losses are hatched: a single loss of some hundreds would leave one colour for all others.
    """
    finished = survey.finished.numpy()
    loss, accuracy = (finite(getattr(survey, kind).numpy(), finished) for kind in KINDS)
    if not loss.size:
        return Scale()
    low, high = float(loss.min()), float(loss.max())
    between = [value for path in survey.paths for value in path.loss] + [marker.loss for marker in survey.markers]
    usual = ROOM * max((value for value in between if isfinite(value)), default=high)
    least, most = float(accuracy.min()), float(accuracy.max())
    top = max(min(high, usual), low + 1e-3)
    return Scale((low, top), (least, max(most, least + 1e-3)), top if high > top else None)


def extent_of(surveys: Sequence[Any]) -> tuple[float, float]:
    """The smallest width and height that hold each landscape."""
    spans = [[float(ends[-1] - ends[0]) for ends in (survey.xs, survey.ys)] for survey in surveys]
    return max(span[0] for span in spans), max(span[1] for span in spans)


def frame(survey: Any, scale: Scale) -> tuple[float, float, float, float]:
    """Left, right, bottom and top of the axes."""
    sides = []
    for index, ends in enumerate((survey.xs, survey.ys)):
        low, high = float(ends[0]), float(ends[-1])
        beyond = max(scale.extent[index] - (high - low), 0) / 2 if scale.extent else 0.0
        sides += [low - beyond, high + beyond]
    return sides[0], sides[1], sides[2], sides[3]


def key_of(kind: str, scale: Scale, palette: Palette) -> dict[str, Any]:
    low, high = getattr(scale, kind)
    values = np.linspace(low, high, 5)
    digits = 0 if high - low >= 40 else 1 if high - low >= 3 else 2
    unit = "" if kind == "loss" else " %"
    texts = [f"{number(float(value), digits)}{unit}" for value in values]
    if kind == "loss" and scale.clip is not None:
        texts[-1] = f"≥ {texts[-1]}"
    return colour_key(values.tolist(), texts, palette)


def finite(values: np.ndarray, finished: np.ndarray) -> np.ndarray:
    chosen = values[finished]
    return chosen[np.isfinite(chosen)]
