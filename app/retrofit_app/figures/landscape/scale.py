"""Values between a landscape's measured points; the colours that all pictures share, so that they can be compared."""

from typing import Any

import numpy as np

from ..palette import TEXT, Palette
from ..words import number

#: The loss at which the paper clips its landscape; higher ones are hatched.
PAPER = 4.6
#: Kinds of pictures, named after their values -> the ends of their colours, the same for all landscapes.
KINDS = {"loss": (0.0, PAPER), "accuracy": (0.0, 100.0)}


def frame(survey: Any) -> tuple[float, float, float, float]:
    """Left, right, bottom and top of the axes."""
    return float(survey.xs[0]), float(survey.xs[-1]), float(survey.ys[0]), float(survey.ys[-1])


def key_of(kind: str, palette: Palette) -> dict[str, Any]:
    """A picture's colour bar."""
    values = np.linspace(*KINDS[kind], 5)
    texts = [number(float(value), 1) if kind == "loss" else f"{value:.0f} %" for value in values]
    if kind == "loss":
        texts[-1] = f"≥ {texts[-1]}"
    font = {"size": TEXT, "color": palette.muted}
    return {"tickvals": values.tolist(), "ticktext": texts, "thickness": 12, "outlinewidth": 0, "tickfont": font}


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
