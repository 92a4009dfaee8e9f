"""The ridge fit of all parent neurons, from sums or rows.

Legend as in `moments`; W (p, m) holds every parent neuron's ridge fit, V (p, d) the fused weights, A (m, d) the targets'
weights, D = diag(1, ..., 1, 0): the bias is not penalised.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import torch
from torch import Tensor

from ...system import device as devices
from .errors import squared_misses
from .sums import Moments, Rows, cholesky, mirrored, upper_gram

AUTO_STRENGTH = 1e-2
"""Ridge strength relative to the mean of the diagonal of xx; measured, docs/defaults.md."""
#: A relative ridge this many times the products' rounding error makes it harmless: 1e-3 for float32.
_OUTWEIGHS = 8000


def ridge_strength(ridge: float | str, energy: Tensor) -> Tensor:
    """lambda of a level, in units of a sum over rows, of the shape of `energy`.

    Args:
        ridge: a number (the paper's convention); "0.1x" for 0.1 times the mean diagonal of xx; "auto" for the relative
            strength in AUTO_STRENGTH.
        energy: mean of the diagonal of xx over the weight columns.
    Raises:
        ValueError: another ridge, or a negative one.
    """
    relative = isinstance(ridge, str) and ridge.endswith("x")
    try:
        factor = AUTO_STRENGTH if ridge == "auto" else float(ridge[:-1] if relative else ridge)  # type: ignore
    except ValueError:
        factor = math.nan
    if not 0 <= factor < math.inf:
        raise ValueError(
            f"ridge must be 'auto', a number from 0, or a multiple of the mean input energy such as '0.1x'. Found {ridge!r}."
        )
    return factor * energy if factor and (ridge == "auto" or relative) else torch.full_like(energy, factor)


def product_dtype(ridge: float | str | None, weights: torch.dtype, device: torch.device) -> torch.dtype:
    """Precision of the products whose sums are the moments.

    float64 for float64 networks, and where it is as fast. Else, for float32 networks, float32 if the ridge outweighs its
    rounding errors or is None, at twice the speed; else the device's `sum_dtype`. Sums are float64 anyway.
    """
    if weights == torch.float64 or ridge is None:
        return weights
    if devices.float64_is_as_fast(device):
        return torch.float64
    relative = ridge if isinstance(ridge, str) else "0x"
    strength = AUTO_STRENGTH if relative == "auto" else float(relative[:-1])
    needed = _OUTWEIGHS * torch.finfo(torch.float32).eps
    return torch.float32 if strength >= needed else devices.sum_dtype(device)


def _unsolved(*_: Tensor) -> NoReturn:
    raise TypeError("nothing was solved: this fit groups neurons by their raw outputs.")


@dataclass(frozen=True, eq=False)
class Solution:
    """Every parent neuron's own fit to the fused inputs, in the form that grouping and fit need."""

    gram: Tensor
    """(m, m) G = phi'phi: inner products of the projected neurons, exact costs at any ridge and W0; 0 between parts"""
    strength: float = float("nan")
    """lambda as used, after `auto` and any increase; the mean over parts"""
    weights: Callable[[Tensor], Tensor] = _unsolved
    """A (m, d) -> V (p, d): the fused weights for the targets z A; the bias is the last row"""
    missed: Callable[[Tensor, Tensor], Tensor] = _unsolved
    """A, V = weights(A) -> (d,): |x V_k - T_k|^2, at the cost of the right-hand side instead of xx V"""


def solve(sums: Moments | Rows, ridge: float | str = "auto", *, toward: Tensor | None = None) -> Solution:
    """Solve L L' = xx + lambda D, phi = L^-1 (xz + lambda D W0), G = phi'phi (docs/method.md), part by part.

    At lambda = 0, equals numpy.linalg.lstsq at full rank, and otherwise the pseudo-inverse with cut-off p x eps, with eps
    that of the products.

    Args:
        ridge: see `ridge_strength`.
        toward: W0 (p, m), the parents' weights for the fused inputs, or None to shrink towards zero.
    Raises:
        ValueError: invalid ridge, or sums that are not finite.
    """
    lam = ridge_strength(ridge, sums.energy)
    if not torch.isfinite(sums.sz.sum() + sums.energy.sum()):
        raise ValueError("the sums over the fusion data are not finite: data or weights overflow or hold NaN.")
    if not lam.any():
        return _pseudo_inverse_rows(sums) if isinstance(sums, Rows) else _pseudo_inverse(sums)
    return (_solve_rows if isinstance(sums, Rows) else _solve_moments)(sums, lam, toward)  # type: ignore[operator]


def _solve_moments(sums: Moments, lam: Tensor, toward: Tensor | None) -> Solution:
    of_columns = lam if sums.parts is None else lam[sums.parts]
    rhs = sums.xz if toward is None else sums.xz + of_columns * _without_bias(toward, sums.bias)
    factor, lam = cholesky(sums.matrices, lam, sums.bias)
    apart = torch.linalg.solve_triangular(factor, sums.apart(rhs), upper=False)
    phi = sums.together(apart)

    def weights(A: Tensor) -> Tensor:
        V = torch.linalg.solve_triangular(factor.mT, sums.of_fused(phi @ A), upper=True)
        return V.movedim(0, 1).flatten(1)

    def missed(A: Tensor, V: Tensor) -> Tensor:
        away = -V if toward is None else toward @ A - V
        of_fused = lam.repeat_interleave(V.shape[1] // len(lam))
        pull = of_fused * _without_bias(away, sums.bias)  # xx V = xz A + lambda D (W0 A - V)
        return squared_misses(sums, A, V, pull)

    return Solution(_gram(sums, apart), lam.mean().item(), weights, missed)


def _gram(sums: Moments, apart: Tensor) -> Tensor:
    """(m, m) inner products of the columns phi (G, p, most) of each part."""
    products = mirrored(upper_gram(apart))
    if sums.parts is None:
        return products[0]
    gram = products.new_zeros(len(sums.parts) + 1, len(sums.parts) + 1)
    gram[sums.columns[:, :, None], sums.columns[:, None]] = products
    return gram[:-1, :-1]


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
    values, vectors = torch.linalg.eigh(sums.matrices)
    eps = max(torch.finfo(values.dtype).eps, sums.rounding)
    large = values > values.shape[1] * eps * values[:, -1:].clamp_min(0)
    vectors = vectors * torch.where(large, 1 / values.clamp_min(1e-300).sqrt(), 0.0)[:, None]
    apart = vectors.mT @ sums.apart(sums.xz)
    phi = sums.together(apart)

    def weights(A: Tensor) -> Tensor:
        return (vectors @ sums.of_fused(phi @ A)).movedim(0, 1).flatten(1)

    return Solution(_gram(sums, apart), 0.0, weights, partial(squared_misses, sums))


def _solve_rows(sums: Rows, lam: Tensor, toward: Tensor | None) -> Solution:
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
    return Solution(gram, lam.item(), weights, lambda A, V: (lam * (dual @ A)).square().sum(0))


def _pseudo_inverse_rows(sums: Rows) -> Solution:
    """The same pseudo-inverse, including the column of ones, from the eigenvectors of x x'."""
    x, z = sums.x, sums.z
    values, vectors = torch.linalg.eigh(x @ x.T)
    large = values > x.shape[1] * torch.finfo(x.dtype).eps * values[-1].clamp_min(0)
    vectors, values = vectors[:, large], values[large]
    phi = vectors.T @ z
    back = vectors / values
    return Solution(phi.T @ phi, 0.0, lambda A: x.T @ (back @ (phi @ A)), partial(squared_misses, sums))
