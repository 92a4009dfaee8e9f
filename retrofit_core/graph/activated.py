"""Layers whose outputs pass through a function before they are added to a stream (see `fusion/fit/activated.py`)."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

#: Maximum passes over the rows, and the relative decrease of the error for another one.
PASSES, LEAST = 30, 1e-3


def refined(
    xx: Tensor,
    bias: bool,
    V: Tensor,
    strength: float,
    function: Callable[[Tensor], Tensor],
    rows: Sequence[tuple[Tensor, Tensor]],
) -> Tensor:
    """Reduce sum |g(x V) - T|^2 + strength |V - V0|^2 from V0 on by majorisation; no accepted step increases it.

    Args:
        V: (p, d) initial weights V0; the bias in the last row.
        rows: x (n, p) and what is missing, T (n, d), of each batch.
    """
    D = torch.ones(len(xx), 1).to(xx)
    D[-1:] = 1 - float(bias)

    def once(V: Tensor) -> tuple[Tensor, float, float]:
        """Half the gradient, the squared error, and the largest slope of g."""
        gradient, missed, largest = torch.zeros_like(V), 0.0, 0.0
        for x, T in rows:
            with torch.enable_grad():
                u = (x @ V.to(x.dtype)).requires_grad_()
                made = function(u)
                (slopes,) = torch.autograd.grad(made.sum(), u)
            left = made.detach() - T
            gradient += (x.T @ (slopes * left)).double()
            missed, largest = missed + left.double().square().sum().item(), max(largest, slopes.abs().max().item())
        return gradient, missed, largest

    def factor(bound: float) -> Tensor:
        return torch.linalg.cholesky(
            bound * xx + torch.diag((strength * D[:, 0]).clamp_min(1e-12 * xx.diagonal().mean()))
        )

    start = best = V
    gradient, error, largest = once(V)
    bound = largest**2
    L = factor(bound)
    for _ in range(PASSES):
        V = best - torch.cholesky_solve(gradient + strength * D * (best - start), L)
        new_gradient, new_error, _ = once(V)
        new_error += (strength * (D * (V - start) ** 2).sum()).item()
        if not new_error < error:
            bound *= 2
            L = factor(bound)
            continue
        gain = (error - new_error) / error
        best, gradient, error = V, new_gradient, new_error
        if gain < LEAST:
            break
    return best
