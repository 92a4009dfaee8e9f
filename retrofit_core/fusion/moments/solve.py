"""The ridge fit of all parent neurons, from sums or rows.

Legend as in `moments`; W (p, m) holds every parent neuron's ridge fit, V (p, d) the fused weights, A (m, d) the targets'
weights, D = diag(1, ..., 1, 0): the bias is not penalised.
"""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from .choices import ridge_strength
from .errors import squared_misses
from .parts import PartMoments, solve_parts
from .products import cholesky, mirrored, upper_gram
from .solution import Solution
from .sums import Moments, Rows


def solve(sums: Moments | Rows, ridge: float | str = "auto", *, toward: Tensor | None = None) -> Solution:
    """Solve L L' = xx + lambda D, phi = L^-1 (xz + lambda D W0), G = phi'phi (docs/method.md).

    At lambda = 0, equals numpy.linalg.lstsq at full rank, and otherwise the pseudo-inverse with cut-off p x eps, with eps
    that of the products.

    Args:
        ridge: see `ridge_strength`.
        toward: W0 (p, m), the parents' weights for the fused inputs, or None to shrink towards zero.
    Raises:
        ValueError: invalid ridge, or sums that are not finite.
    """
    if isinstance(sums, PartMoments):
        return replace(solve_parts(sums, ridge, toward=toward), missed=partial(squared_misses, sums))
    diagonal = sums.mean_diagonal
    lam = ridge_strength(ridge, diagonal, "zero" if toward is None else "parents")
    if not torch.isfinite(sums.sz.sum() + diagonal):
        raise ValueError("the sums over the fusion data are not finite: data or weights overflow or hold NaN.")
    if not lam:
        return _pseudo_inverse_rows(sums) if isinstance(sums, Rows) else _pseudo_inverse(sums)
    return (_solve_rows if isinstance(sums, Rows) else _solve_moments)(sums, lam, toward)  # type: ignore[operator]


def _solve_moments(sums: Moments, lam: float, toward: Tensor | None) -> Solution:
    assert sums.xx is not None and sums.xz is not None
    rhs = sums.xz if toward is None else sums.xz + lam * _without_bias(toward, sums.bias)
    factor, lam = cholesky(sums.xx, lam, sums.bias)
    phi = torch.linalg.solve_triangular(factor, rhs, upper=False)
    gram = mirrored(upper_gram(phi))
    back = partial(torch.linalg.solve_triangular, factor.T, upper=True)

    def missed(A: Tensor, V: Tensor) -> Tensor:
        away = -V if toward is None else toward @ A - V
        pull = lam * _without_bias(away, sums.bias)  # xx V = xz A + lambda D (W0 A - V)
        return squared_misses(sums, A, V, pull)

    return Solution(gram, lam, lambda A: back(phi @ A), missed)


def _without_bias(weights: Tensor, bias: bool) -> Tensor:
    """D W (p, m): sets the bias row to zero."""
    if not bias:
        return weights
    weights = weights.clone()
    weights[-1] = 0
    return weights


def _pseudo_inverse(sums: Moments) -> Solution:
    """lambda = 0: drops directions below p x eps x largest eigenvalue, like the paper's pinv.

    eps is that of the products, whose rounding errors are no directions of the data.
    """
    assert sums.xx is not None and sums.xz is not None
    xx, xz = sums.xx, sums.xz
    values, vectors = torch.linalg.eigh(xx)
    eps = max(torch.finfo(xx.dtype).eps, sums.rounding)
    large = values > len(values) * eps * values[-1].clamp_min(0)
    vectors, values = vectors[:, large], values[large]
    phi = (vectors.T @ xz) / values.sqrt()[:, None]
    back = vectors / values.sqrt()
    return Solution(phi.T @ phi, 0.0, lambda A: back @ (phi @ A), partial(squared_misses, sums))


def _solve_rows(sums: Rows, lam: float, toward: Tensor | None) -> Solution:
    """The dual form on centred rows: W = W0 + x' Q with Q = (x x' + lambda I)^-1 (z - x W0).

    G = W' (x'x + lambda I) W follows without W: (x x' + lambda I) Q is the residual z - x W0.
    """
    x, z = sums.centred
    parents = None if toward is None else toward[: x.shape[1]]
    outputs = None if parents is None else x @ parents
    residual = z if outputs is None else z - outputs
    factor, lam = cholesky(sums.kernel, lam, False)
    dual = torch.cholesky_solve(residual, factor)
    gram = residual.T @ (residual - lam * dual)  # x x' Q is the residual minus lambda Q
    if parents is not None and outputs is not None:
        cross = outputs.T @ residual  # W0' x' (x x' + lambda I) Q
        gram += cross + cross.T + outputs.T @ outputs + lam * (parents.T @ parents)
    gram = (gram + gram.T) / 2  # symmetric up to rounding
    if sums.bias:
        x_mean, z_mean = sums.x[:, :-1].mean(0), sums.z.mean(0)
        gram += sums.rows * torch.outer(z_mean, z_mean)

    def weights(A: Tensor) -> Tensor:
        V = x.T @ (dual @ A)
        V = V if parents is None else V + parents @ A
        return torch.cat([V, (z_mean @ A - x_mean @ V)[None]]) if sums.bias else V

    # z - x W = lambda Q
    return Solution(gram, lam, weights, lambda A, V: (lam * (dual @ A)).square().sum(0))


def _pseudo_inverse_rows(sums: Rows) -> Solution:
    """The same pseudo-inverse, including the column of ones, from the eigenvectors of x x'."""
    x, z = sums.x, sums.z
    values, vectors = torch.linalg.eigh(x @ x.T)
    large = values > x.shape[1] * torch.finfo(x.dtype).eps * values[-1].clamp_min(0)
    vectors, values = vectors[:, large], values[large]
    phi = vectors.T @ z
    back = vectors / values
    return Solution(phi.T @ phi, 0.0, lambda A: x.T @ (back @ (phi @ A)), partial(squared_misses, sums))
