"""Values between a landscape's measured points; colours that pictures share, so that they can be compared."""

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
    """Colours that pictures may share."""

    loss: tuple[float, float] = (0.0, PAPER)
    accuracy: tuple[float, float] = (0.0, 100.0)
    clip: float | None = PAPER
    """Losses above it are hatched"""


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


def frame(survey: Any) -> tuple[float, float, float, float]:
    """Left, right, bottom and top of the axes."""
    return float(survey.xs[0]), float(survey.xs[-1]), float(survey.ys[0]), float(survey.ys[-1])


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


# --- values between measured points ---------------------------------------------------------------


def interpolated(survey: Any, kind: str, points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Axes and values with at least so many points per side, including the measured ones.

    Losses are interpolated logarithmically, because they rise evenly on that scale: next to a loss of 600, a linear one
    would make the whole cell look lost.
    """
    xs, ys, values = survey.xs.numpy(), survey.ys.numpy(), capped(getattr(survey, kind).numpy())
    values = np.log(np.maximum(values, 1e-6)) if kind == "loss" else values
    across, up = _denser(xs, points), _denser(ys, points)
    values = np.stack([np.interp(across, xs, row) for row in values])
    values = np.stack([np.interp(up, ys, column) for column in values.T], 1)
    return across, up, np.exp(values) if kind == "loss" else values


def _denser(points: np.ndarray, least: int) -> np.ndarray:
    """Evenly spaced points, with equally many steps between each two given ones."""
    steps = -(-(least - 1) // (len(points) - 1))
    return np.linspace(points[0], points[-1], steps * (len(points) - 1) + 1)


def capped(values: np.ndarray) -> np.ndarray:
    """Values with infinity replaced by ten times the largest finite one."""
    finite = values[np.isfinite(values)]
    most = 10 * float(finite.max()) if finite.size else 1.0
    return np.where(np.isposinf(values), most, values)
