"""What a level costs, from its sums (Theorem 1).

J = sum_j s_j |f_k(j) - z_j|^2, where f = x V are the fused neurons' outputs and neuron j belongs to group k(j), is the sum of

    grouping      = sum_j s_j |z_j - T_k(j)|^2
    approximation = sum_k S_k |f_k - T_k|^2
    cross         = 2 sum_j s_j (f_k(j) - T_k(j))' (T_k(j) - z_j)

whatever the targets T = z A are. Where they are the groups' weighted means the cross term vanishes: that is the theorem.
Each is a tensor without axes, so that a report reads all of a level together: a GPU has to be waited for.
"""

from dataclasses import replace

import torch
from torch import Tensor

from ...system.device import Holds
from ..targets import Targets, excess
from .parts import PartMoments, unavoidable_by_part
from .products import cholesky
from .sums import Moments, Rows

#: Ridge that stands for lambda -> 0 in the unavoidable error, relative as AUTO_STRENGTH: small beside the data, large
#: beside rounding; VANISHING for sums of float64 products, else ten times the rounding of the products.
VANISHING = 1e-10


def grouping_error(zz: Tensor, scores: Tensor, labels: Tensor, targets: Targets) -> Tensor:
    """sum_j s_j |z_j - T_k(j)|^2: what replacing neurons by their group's target costs.

    Args:
        zz: (m, m) inner products of the parents' outputs, sums over rows.
        scores, labels: (m,) s and k.
    """
    products = zz @ targets.A
    error = scores @ zz.diagonal() - targets.totals @ (products * targets.A).sum(0)
    extra = excess(targets, labels, scores)
    if extra is not None:
        error = error + 2 * (products * extra).sum()
    return error.clamp_min(0)


def approximation_error(sums: Moments | Rows, targets: Targets, V: Tensor, missed: Tensor | None = None) -> Tensor:
    """sum_k S_k |x V_k - T_k|^2: what the fitted weights miss of the targets.

    Args:
        V: (p, d) weights.
        missed: (d,) |x V_k - T_k|^2 where it is known, as a `Solution` knows it at less cost.
    """
    missed = squared_misses(sums, targets.A, V) if missed is None else missed
    return targets.totals @ missed


def cross_error(sums: Moments | Rows, scores: Tensor, labels: Tensor, targets: Targets, V: Tensor) -> float | Tensor:
    """2 sum_j s_j (x V_k(j) - T_k(j))' (T_k(j) - z_j): 0 for weighted means, of either sign for other targets."""
    m = len(labels)  # a stream may stand behind the neurons, to which the fitted outputs are added
    extra = excess(replace(targets, A=targets.A[:m]), labels, scores)
    if extra is None:
        return 0.0
    if isinstance(sums, Rows):
        products = sums.z.T @ (sums.x @ V - sums.z @ targets.A)
    else:
        assert sums.xz is not None
        products = sums.xz.T @ V - sums.zz @ targets.A
    return cross_of(products[:m], extra)


def cross_of(products: Tensor, extra: Tensor) -> Tensor:
    """The cross term from z'(f - T), (m, d), and the `excess` of the targets, (m, d)."""
    return 2 * (products * extra).sum()


def squared_misses(sums: Moments | Rows, A: Tensor, V: Tensor, pull: Tensor | None = None) -> Tensor:
    """|x V_k - T_k|^2, (d,), of any weights V; pull = xx V - xz A where it is known."""
    if isinstance(sums, Rows):
        return (sums.x @ V - sums.z @ A).square().sum(0)
    assert sums.xx is not None and sums.xz is not None
    xzA = sums.xz @ A
    pull = sums.times(V) - xzA if pull is None else pull
    return (((pull - xzA) * V).sum(0) + ((sums.zz @ A) * A).sum(0)).clamp_min(0)


def unavoidable_error(sums: Moments | Rows, scores: Tensor, holds: Holds = bool) -> Tensor:
    """sum_j s_j (|z_j|^2 - |projection of z_j onto the fused inputs|^2) at a vanishing ridge.

    The part of the cost that no weights of this level could avoid, whatever the grouping.

    Args:
        holds: as of `cholesky`.
    """
    if isinstance(sums, PartMoments):
        return unavoidable_by_part(sums, scores, VANISHING)
    if isinstance(sums, Rows):
        factor, lam = cholesky(sums.kernel, VANISHING * sums.mean_diagonal, False, holds)
        missed = lam * torch.cholesky_solve(sums.centred[1], factor)  # z - K (K + lambda I)^-1 z
        return scores @ missed.square().sum(0)
    assert sums.xx is not None and sums.xz is not None
    lam = max(VANISHING, 10 * sums.rounding) * sums.mean_diagonal
    factor, _ = cholesky(sums.xx, lam, sums.bias, holds)
    explained = torch.linalg.solve_triangular(factor, sums.xz, upper=False).square().sum(0)
    return scores @ (sums.zz.diagonal() - explained).clamp_min(0)
