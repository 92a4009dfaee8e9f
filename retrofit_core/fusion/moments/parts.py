"""The moment form of a grouped convolution (docs/method.md), including depthwise ones, whose parts are single channels.

Part g of G reads only its own p inputs x_g, so each parent neuron j is fitted within its assigned part g(j), and fused neuron
k within its own, g = k // (d / G). So xz only needs each neuron's products with the inputs of its part.
"""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from .choices import ridge_strength
from .solution import Solution
from .sums import Moments


@dataclass(frozen=True, eq=False)
class PartMoments(Moments):
    """Sums over N rows: xx (G, p, p), one matrix per part; xz (p, m), whose column j is the sum of x_g(j) z_j."""

    parts: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """(m,) g(j): the fused network's part to which each column of z belongs"""

    def times(self, V: Tensor) -> Tensor:
        """(p, d) xx V: each part's matrix times the weights of its neurons."""
        assert self.xx is not None
        return torch.einsum("gpq,qgb->pgb", self.xx, _by_part(V, self.xx)).flatten(1)

    def minus(self, labels: Tensor) -> "PartMoments":
        """See `Moments.minus`."""
        return replace(super().minus(labels), parts=self.parts[: len(labels)])  # type: ignore[return-value, call-arg]


class PartSums:
    """Accumulates the rows of a grouped convolution; `finish` returns the moments.

    Args:
        parts: (m,) the fused network's part to which each column of z belongs.
        count: G, the number of parts.
        p: number of inputs of each, including the column of ones.
        bias: whether the last input is 1.
    """

    def __init__(self, parts: Tensor, count: int, p: int, *, bias: bool) -> None:
        m, device = len(parts), parts.device
        self.parts, self.bias, self.rows = parts, bias, 0
        self.columns = columns_of(parts, count)
        self.zz = torch.zeros(m, m, dtype=torch.float64, device=device)
        self.sz, self.xx = self.zz.new_zeros(m), self.zz.new_zeros(count, p, p)
        self.xz = self.zz.new_zeros(count, p, self.columns.shape[1])

    def add(self, z: Tensor, x: Tensor) -> None:
        """Add rows z (n, m) and each part's inputs x (n, G, p)."""
        z, x = z.double(), x.double()
        self.rows += len(z)
        self.sz += z.sum(0)
        self.zz += z.T @ z
        self.xx += torch.einsum("ngp,ngq->gpq", x, x)
        self.xz += torch.einsum("ngp,ngj->gpj", x, _apart(z, self.columns))

    def finish(self) -> PartMoments:
        """The moments of all rows so far."""
        facts = {"rows": self.rows, "bias": self.bias, "parts": self.parts}
        return PartMoments(self.zz, self.sz, self.xx, _side_by_side(self.xz, self.columns, len(self.parts)), **facts)


def columns_of(parts: Tensor, count: int) -> Tensor:
    """(count, most) the columns of each part in order, padded with m, which is no column.

    Args:
        parts: (m,) the part of each column.
    """
    counts = torch.bincount(parts, minlength=count)
    order = parts.argsort(stable=True)
    of_part = parts[order]
    rank = torch.arange(len(parts), device=parts.device) - (counts.cumsum(0) - counts)[of_part]
    columns = torch.full((count, int(counts.max())), len(parts), device=parts.device)
    columns[of_part, rank] = order
    return columns


def _apart(matrix: Tensor, columns: Tensor) -> Tensor:
    """(n, m) -> (n, G, most) the columns of each part, padded with zeros."""
    return torch.cat([matrix, matrix.new_zeros(len(matrix), 1)], 1)[:, columns]


def _side_by_side(apart: Tensor, columns: Tensor, m: int) -> Tensor:
    """(G, p, most) -> (p, m), the inverse of `_apart`."""
    matrix = apart.new_zeros(apart.shape[1], m + 1)
    matrix[:, columns] = apart.movedim(0, 1)
    return matrix[:, :m]


def _by_part(V: Tensor, xx: Tensor) -> Tensor:
    """(p, d) weights as (p, G, d / G)."""
    return V.unflatten(1, (len(xx), -1))


def solve_parts(sums: PartMoments, ridge: float | str, *, toward: Tensor | None = None) -> Solution:
    """Least squares of each part's neurons on its own inputs, with a ridge relative to their energy.

    Directions that are zero up to rounding are dropped, so that dead inputs get no weight. Neurons of different parts have
    inner product 0, because they are never grouped.

    Args:
        ridge: see `ridge_strength`.
        toward: W0 (p, m), the parents' weights, or None to shrink towards zero.
    """
    assert sums.xx is not None and sums.xz is not None
    weights = sums.xx.shape[1] - sums.bias
    pull = torch.ones(sums.xx.shape[1]).to(sums.xx)  # D
    pull[weights:] = 0
    energy = sums.xx.diagonal(dim1=1, dim2=2)[:, :weights].mean(1) if weights else sums.xx.new_zeros(len(sums.xx))
    where = "zero" if toward is None else "parents"
    lam = ridge_strength(ridge, energy, where)
    lam = lam if isinstance(lam, Tensor) else torch.full_like(energy, lam)
    values, vectors = torch.linalg.eigh(sums.xx + lam[:, None, None] * torch.diag(pull))
    inverse = _inverse(values, values.shape[1] * torch.finfo(values.dtype).eps)
    right = sums.xz if toward is None else sums.xz + lam[sums.parts] * pull[:, None] * toward

    def fitted(A: Tensor) -> Tensor:
        along = torch.einsum("grq,rgb->qgb", vectors, _by_part(right @ A, vectors)) * inverse.T[:, :, None]
        return torch.einsum("gpq,qgb->pgb", vectors, along).flatten(1)

    columns = columns_of(sums.parts, len(vectors))
    phi = _projected(right, vectors, inverse, columns)
    gram = right.new_zeros(len(sums.parts) + 1, len(sums.parts) + 1)
    gram[columns[:, :, None], columns[:, None]] = phi.transpose(1, 2) @ phi
    return Solution(gram[:-1, :-1], lam.mean().item(), fitted)


def _inverse(values: Tensor, least: float) -> Tensor:
    """(G, p) 1 / eigenvalue, or 0 if it is at most `least` times the part's largest."""
    large = values > least * values[:, -1:].clamp_min(0)
    return torch.where(large, 1 / values.clamp_min(1e-300), 0.0)


def _projected(right: Tensor, vectors: Tensor, inverse: Tensor, columns: Tensor) -> Tensor:
    """(G, p, most) phi: right-hand sides of each part's columns along the part's directions."""
    along = vectors.transpose(1, 2) @ _apart(right, columns).movedim(0, 1)
    return along * inverse.sqrt()[:, :, None]


def unavoidable_by_part(sums: PartMoments, scores: Tensor, vanishing: float) -> float:
    """sum_j s_j (|z_j|^2 - |projection of z_j onto the inputs of its part|^2)."""
    assert sums.xx is not None and sums.xz is not None
    values, vectors = torch.linalg.eigh(sums.xx)
    inverse = _inverse(values, vanishing)
    columns = columns_of(sums.parts, len(vectors))
    phi = _projected(sums.xz, vectors, inverse, columns)
    along = _side_by_side(phi, columns, len(sums.parts))
    return (scores @ (sums.zz.diagonal() - along.square().sum(0)).clamp_min(0)).item()
