"""Conductance of every neuron at every level, in one pass per interpolation point (Dhamdhere et al. 2018)."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..labels import as_labels
from ..levels import Level
from ..monitor import Monitor
from .base import Scores, absolute_sum, chosen, gaps, samples_per_batch

Run = Callable[..., list[Tensor]]


def conductance(
    levels: Sequence[Level],
    x: Tensor,
    y: Tensor,
    *,
    steps: int = 10,
    monitor: Monitor | None = None,
    dtype: torch.dtype | None = None,
) -> Scores:
    """Sum over samples and positions of |conductance| at each level's output, divided by the number of samples.

    With boundary tensors h(a) at inputs a x and gradients g(a) = d f_y / d h, the attribution of a neuron is
    sum_i (h(a_i+1) - h(a_i)) g(a_i) over Gauss-Legendre points a_1 ... a_(steps+1): Captum's LayerConductance, which
    makes two passes per level where one backward pass per point gives the gradients at all levels.

    Args:
        x: (B, ...) inputs; the baseline is zero, the mean image in normalised input space.
        y: (B,) labels.
        steps: number of intervals.
        dtype: torch.bfloat16 runs the passes in mixed precision; sums stay float64.
    """
    return conductance_at(
        partial(_boundaries, levels),
        [level.axis for level in levels],
        x,
        y,
        steps=steps,
        monitor=monitor,
        dtype=dtype,
        batch=samples_per_batch(levels, copies=8),
    )


def conductance_at(
    run: Run,
    axes: Sequence[int],
    x: Tensor,
    y: Tensor,
    *,
    steps: int = 10,
    batch: int = 64,
    monitor: Monitor | None = None,
    dtype: torch.dtype | None = None,
) -> Scores:
    """`conductance` wherever a network can be watched.

    Args:
        run: (inputs, with_gradients=) -> the tensors at these places, the last one being the outputs.
        axes: the neuron axis of each.
        batch: samples in one pass.
    """
    y = as_labels(y)
    points = (np.polynomial.legendre.leggauss(steps + 1)[0] + 1) / 2
    sums: list[Tensor | float] = [0.0] * len(axes)
    signed, change = np.zeros(len(axes)), 0.0
    monitor = monitor or Monitor()
    starts = range(0, len(x), batch)
    for number, start in enumerate(starts):
        monitor.check()
        monitor.emit("step", index=number, total=len(starts), name="conductance")
        inputs, labels = x[start : start + batch], y[start : start + batch]
        with torch.autocast(x.device.type, dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            for index, attribution in enumerate(_attributions(run, inputs, labels, points)):
                sums[index] = sums[index] + absolute_sum(attribution, axes[index])
                signed[index] += attribution.sum(dtype=torch.float64).item()
            change += _change(run, inputs, labels)
    report = {"steps": steps, "samples": len(x), "completeness_gap": gaps(signed.tolist(), change)}
    return Scores([torch.as_tensor(total / len(x)) for total in sums], report)


def _attributions(run: Run, x: Tensor, y: Tensor, points: np.ndarray) -> list[Tensor]:
    """Conductance at each place, shaped like its tensor."""
    totals: list[Tensor] = []
    before: list[Tensor] = []
    gradients: tuple[Tensor, ...] = ()
    for point in points:
        last = point == points[-1]
        boundaries = run(x * float(point), with_gradients=not last)
        if gradients:
            steps = [(h.detach() - h0) * g for h, h0, g in zip(boundaries, before, gradients, strict=True)]
            totals = [total + step for total, step in zip(totals, steps, strict=True)] if totals else steps
        if not last:
            gradients = torch.autograd.grad(chosen(boundaries[-1], y).sum(), boundaries)
        before = [h.detach() for h in boundaries]
    return totals


def _boundaries(levels: Sequence[Level], x: Tensor, *, with_gradients: bool) -> list[Tensor]:
    """The output of every level. The first is a leaf: nothing before it needs a backward pass."""
    with torch.no_grad():
        h = levels[0].module(x)
    found = [h.requires_grad_(with_gradients)]
    with torch.set_grad_enabled(with_gradients):
        for level in levels[1:]:
            found.append(level.module(found[-1]))
    return found


@torch.no_grad()
def _change(run: Run, x: Tensor, y: Tensor) -> float:
    """Sum over samples of f_y(x) - f_y(0)."""
    after = chosen(run(x, with_gradients=False)[-1], y)
    zero = run(torch.zeros_like(x[:1]), with_gradients=False)[-1]
    return (after - zero[0, y]).sum(dtype=torch.float64).item()
