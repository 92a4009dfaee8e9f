"""The errors of a level, from its sums (Theorem 1).

With outputs f = x V of the fused neurons, and neuron j in group k(j), J = sum_j s_j |f_k(j) - z_j|^2 is the sum of

    grouping      = sum_j s_j |z_j - T_k(j)|^2
    approximation = sum_k S_k |f_k - T_k|^2
    cross         = 2 sum_j s_j (f_k(j) - T_k(j))' (T_k(j) - z_j)

for any targets T = z A. If these are the groups' weighted means, the cross term vanishes: that is the theorem.
"""

from dataclasses import replace

from torch import Tensor

from ..targets import Targets, excess
from .sums import Moments, Rows


def grouping_error(zz: Tensor, scores: Tensor, labels: Tensor, targets: Targets) -> float:
    """sum_j s_j |z_j - T_k(j)|^2: the cost of replacing neurons by their group's target.

    Args:
        zz: (m, m) inner products of the parents' outputs, sums over rows.
        scores, labels: (m,) s and k.
    """
    products = zz @ targets.A
    error = scores @ zz.diagonal() - targets.totals @ (products * targets.A).sum(0)
    extra = excess(targets, labels, scores)
    if extra is not None:
        error = error + 2 * (products * extra).sum()
    return error.clamp_min(0).item()


def approximation_error(sums: Moments | Rows, targets: Targets, V: Tensor, missed: Tensor | None = None) -> float:
    """sum_k S_k |x V_k - T_k|^2: the error of the fitted weights.

    Args:
        V: (p, d) weights.
        missed: (d,) |x V_k - T_k|^2 if known; a `Solution` computes it at less cost.
    """
    missed = squared_misses(sums, targets.A, V) if missed is None else missed
    return (targets.totals @ missed).item()


def cross_error(sums: Moments | Rows, scores: Tensor, labels: Tensor, targets: Targets, V: Tensor) -> float:
    """2 sum_j s_j (x V_k(j) - T_k(j))' (T_k(j) - z_j): 0 for weighted means, of either sign for other targets."""
    m = len(labels)  # a stream's columns may follow those of the neurons
    extra = excess(replace(targets, A=targets.A[:m]), labels, scores)
    if extra is None:
        return 0.0
    products = (
        sums.z.T @ (sums.x @ V - sums.z @ targets.A) if isinstance(sums, Rows) else sums.xz.T @ V - sums.zz @ targets.A
    )
    return 2 * (products[:m] * extra).sum().item()


def squared_misses(sums: Moments | Rows, A: Tensor, V: Tensor, pull: Tensor | None = None) -> Tensor:
    """|x V_k - T_k|^2, (d,), of any weights V; pull = xx V - xz A, if known."""
    if isinstance(sums, Rows):
        return (sums.x @ V - sums.z @ A).square().sum(0)
    xzA = sums.xz @ A
    pull = sums.times(V) - xzA if pull is None else pull
    return (((pull - xzA) * V).sum(0) + ((sums.zz @ A) * A).sum(0)).clamp_min(0)
