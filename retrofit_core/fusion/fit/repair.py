"""Fit of layers whose outputs pass through a function before they are added to a stream.

Legend: x (N, p) inputs, h (N, d) the fused network's stream, T (N, d) targets of the stream after the sum, g the function.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ...networks.levels import Activated
from ..moments import Moments, Rows
from ..walk import Step

#: Maximum passes over the rows, and the relative decrease of the error for another one.
PASSES, LEAST = 30, 1e-3


@torch.no_grad()
def repaired(step: Step, sums: Moments | Rows, V: Tensor, A: Tensor, strength: float) -> tuple[Tensor, Tensor, Tensor]:
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
    assert xx is not None
    D = torch.ones(len(xx), 1).to(xx)
    D[-1:] = 1 - float(sums.bias)
    start, best = V, V
    batches = list(step.branch(A)) if _fits(step, V) else None  # None: recomputed in each pass
    slopes: list[Tensor] = []
    gradient, missed, lacking = _pass(step, V, A, batches, slopes)
    bound = torch.stack(slopes).max().item() ** 2
    error = missed.sum().item()
    factor = _factor(xx, D, bound, strength)
    for _ in range(PASSES):
        V = best - torch.cholesky_solve(gradient + strength * D * (best - start), factor)
        new_gradient, new_missed, _ = _pass(step, V, A, batches)
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
    rows = step.walk.samples * step.level.positions
    return 4 * V.element_size() * rows * (V.shape[0] + 2 * V.shape[1]) <= step.walk.memory


def _factor(xx: Tensor, D: Tensor, bound: float, strength: float) -> Tensor:
    floor = 1e-12 * xx.diagonal().mean()
    return torch.linalg.cholesky(bound * xx + torch.diag((strength * D[:, 0]).clamp_min(floor)))


def _pass(
    step: Step,
    V: Tensor,
    A: Tensor,
    batches: Sequence[tuple[Tensor, Tensor, Tensor]] | None,
    largest: list[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """x' (g'(x V) (g(x V) + h - T)) (p, d); (d,) squared errors; (d,) |h - T|^2.

    Args:
        largest: gets the largest |g'| of each batch.
    """
    form = step.level.form
    assert isinstance(form, Activated)
    gradient, missed, lacking = torch.zeros_like(V), V.new_zeros(V.shape[1]), V.new_zeros(V.shape[1])
    for x, h, T in batches or step.branch(A):
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
