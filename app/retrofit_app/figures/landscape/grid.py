"""The values of a landscape between the points that were measured."""

from typing import Any

import numpy as np


def interpolated(survey: Any, kind: str, points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Axes and values with at least so many points a side, those that were measured among them.

    Losses are interpolated on a logarithmic scale, on which they rise evenly: next to a loss of 600 a linear one would
    draw the whole cell as if it were lost.
    """
    xs, ys, values = survey.xs.numpy(), survey.ys.numpy(), capped(getattr(survey, kind).numpy())
    values = np.log(np.maximum(values, 1e-6)) if kind == "loss" else values
    across, up = _denser(xs, points), _denser(ys, points)
    values = np.stack([np.interp(across, xs, row) for row in values])
    values = np.stack([np.interp(up, ys, column) for column in values.T], 1)
    return across, up, np.exp(values) if kind == "loss" else values


def _denser(points: np.ndarray, least: int) -> np.ndarray:
    """Evenly spaced points with the same number of steps between any two of the given ones."""
    steps = -(-(least - 1) // (len(points) - 1))
    return np.linspace(points[0], points[-1], steps * (len(points) - 1) + 1)


def capped(values: np.ndarray) -> np.ndarray:
    """Values in which infinity is a number: a little above all others."""
    finite = values[np.isfinite(values)]
    most = 10 * float(finite.max()) if finite.size else 1.0
    return np.where(np.isposinf(values), most, values)
