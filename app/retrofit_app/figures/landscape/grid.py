"""A landscape's values between its measured points."""

from typing import Any

import numpy as np


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
