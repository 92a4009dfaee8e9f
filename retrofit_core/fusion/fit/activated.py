"""Fit of layers whose outputs pass through a function before they are added to a stream.

Legend: x (N, p) inputs, h (N, d) the fused network's stream, T (N, d) targets of the stream after the sum, g the function.
"""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from ...networks.levels import Activated, Form, rows
from ..moments import Moments, Rows, Solution
from ..results import Fitted
from ..targets import Targets
from ..walk import Step, chosen

#: Maximum passes over the rows, and the relative decrease of the error for another one.
PASSES, LEAST = 30, 1e-3


def fit_activated(step: Step, sums: Moments | Rows, solution: Solution, targets: Targets) -> Fitted:
    """Fit the layer first to the outputs of the parents' layers, then to what is missing after the function."""
    with step.walk.stopwatch.phase("solve"):
        first = torch.cat([targets.A.new_zeros(len(targets.A) + step.level.width, step.level.width), targets.A])
        V, missed, lacking = refined(step, sums, solution.weights(first), targets.A, solution.strength)
        step.level.write(V)
    missed, lacking = ((targets.totals @ error).item() for error in (missed, lacking))
    return Fitted(sums.form, missed, ridge=solution.strength, missing_error=lacking)


@torch.no_grad()
def refined(step: Step, sums: Moments | Rows, V: Tensor, A: Tensor, strength: float) -> tuple[Tensor, Tensor, Tensor]:
    """Reduce sum |g(x V) + h - T|^2 + strength |V - V0|^2 from V0 on; no accepted step increases it.

    Each step minimises a quadratic upper bound (majorisation: |g'| is bounded), so it needs one pass over the rows, and all
    share a factor of x'x.

    Args:
        V: (p, d) initial weights V0, float64; the bias in the last row.
        A: (m, d) weights of the targets.
    Returns:
        The weights; and (d,) their squared error, and (d,) that of g(x V) = 0.
    """
    xx = sums.x.T @ sums.x if isinstance(sums, Rows) else sums.xx
    D = torch.ones(len(xx), 1).to(xx)
    D[-1:] = 1 - float(sums.bias)
    start, best = V, V
    batches = list(_batches(step, A)) if _fits(step, V) else None  # None: recomputed in each pass
    slopes: list[Tensor] = []
    gradient, missed, lacking = _pass(step.level.form, V, batches or _batches(step, A), slopes)
    bound = torch.stack(slopes).max().item() ** 2
    error = missed.sum().item()
    factor = _factor(xx, D, bound, strength)
    for _ in range(PASSES):
        V = best - torch.cholesky_solve(gradient + strength * D * (best - start), factor)
        new_gradient, new_missed, _ = _pass(step.level.form, V, batches or _batches(step, A))
        new_error = (new_missed.sum() + strength * (D * (V - start) ** 2).sum()).item()
        if not new_error < error:
            bound = 2 * bound
            factor = _factor(xx, D, bound, strength)
            continue
        gain = (error - new_error) / error
        best, gradient, missed, error = V, new_gradient, new_missed, new_error
        if gain < LEAST:
            break
    return best, missed, lacking


def _fits(step: Step, V: Tensor) -> bool:
    """Whether the rows (inputs, stream and targets) fit in a quarter of the memory budget."""
    count = step.count
    return 4 * V.element_size() * count * (V.shape[0] + 2 * V.shape[1]) <= step.walk.memory


def _factor(xx: Tensor, D: Tensor, bound: float, strength: float) -> Tensor:
    floor = 1e-12 * xx.diagonal().mean()
    return torch.linalg.cholesky(bound * xx + torch.diag((strength * D[:, 0]).clamp_min(floor)))


def _batches(step: Step, A: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """For each batch: input rows x (n, p), the fused network's stream h (n, d), and targets z A (n, d)."""
    level, form, dtype = step.level, step.level.form, step.walk.dtype
    assert isinstance(form, Activated)
    for (boundary, outputs), counted in zip(step.walk.batches(step.index), step.counted, strict=True):
        with step.walk.stopwatch.phase("fit"):
            inputs, stream = form.read(boundary)
            assert stream is not None
            z, x = step.side_by_side(outputs, dtype), form.rows(inputs, ones=form.bias)
            x, stream, z = (chosen(tensor, counted) for tensor in (x, rows(stream, level.axis), z))
            yield x, stream, z @ A.to(dtype)


def _pass(
    form: Form,
    V: Tensor,
    batches: Iterable[tuple[Tensor, Tensor, Tensor]],
    largest: list[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """x' (g'(x V) (g(x V) + h - T)) (p, d); (d,) squared errors; (d,) |h - T|^2.

    Args:
        largest: gets the largest |g'| of each batch.
    """
    assert isinstance(form, Activated)
    gradient, missed, lacking = torch.zeros_like(V), V.new_zeros(V.shape[1]), V.new_zeros(V.shape[1])
    for x, h, T in batches:
        with torch.enable_grad():
            u = (x @ V.to(x.dtype)).requires_grad_()
            outputs = form.function(u)
            (slopes,) = torch.autograd.grad(outputs.sum(), u)
        left = outputs.detach() + h - T
        gradient += (x.T @ (slopes * left)).double()
        missed += left.double().square().sum(0)
        lacking += (h - T).double().square().sum(0)
        if largest is not None:
            largest.append(slopes.abs().max())
    return gradient, missed, lacking
