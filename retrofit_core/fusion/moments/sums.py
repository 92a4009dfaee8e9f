"""Sums over rows, their accumulator, the rows themselves, and the products that they are made of.

Legend as in `moments`. A grouped convolution has G parts, each with inputs of its own: part g reads x_g (N, p), so each of the
parents' neurons j is fitted in the part g(j) to which it is assigned, and fused neuron k in its own, k // (d / G).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from ...system import device as devices

#: Rows per block of x'x: of 192 to 5000 the fastest on an AVX-512 CPU for p = 577, 1153, 2305 and 4609.
BLOCK = 256


@dataclass(frozen=True, eq=False)
class Moments:
    """Immutable sums over N rows, which `MomentSums` accumulates from batches."""

    form: ClassVar[str] = "primal"

    zz: Tensor
    """(m, m)"""
    sz: Tensor
    """(m,)"""
    xx: Tensor = torch.empty(0, 0)
    """(p, p), or (G, p, p) of the parts; empty if only outputs were summed"""
    xz: Tensor = torch.empty(0, 0)
    """(p, m); with parts, column j is the sum of x_g(j) z_j"""
    rows: int = 0
    """N"""
    bias: bool = False
    """Whether the last column of x is 1"""
    rounding: float = 0.0
    """Machine epsilon of the least precise products added"""
    parts: Tensor | None = None
    """(m,) g(j) of each column of z; None: all read the same inputs"""

    @cached_property
    def matrices(self) -> Tensor:
        """(G, p, p) xx; G = 1 without parts."""
        return self.xx.view(-1, *self.xx.shape[-2:])

    @cached_property
    def columns(self) -> Tensor:
        """(G, most) the columns of z in each part."""
        assert self.parts is not None
        return columns_of(self.parts, len(self.matrices))

    @cached_property
    def energy(self) -> Tensor:
        """(G,) mean of the diagonal of xx over the weight columns, without the bias but with dead columns."""
        diagonals = self.matrices.diagonal(dim1=1, dim2=2)[:, : self.matrices.shape[1] - self.bias]
        return diagonals.sum(1) / max(diagonals.shape[1], 1)

    def apart(self, matrix: Tensor) -> Tensor:
        """(p, m) -> (G, p, most) the columns of each part, padded with zeros."""
        return matrix[None] if self.parts is None else _apart(matrix, self.columns).movedim(1, 0)

    def together(self, apart: Tensor) -> Tensor:
        """(G, p, most) -> (p, m), the inverse of `apart`."""
        return apart[0] if self.parts is None else _together(apart, self.columns, len(self.parts))

    def of_fused(self, V: Tensor) -> Tensor:
        """(p, d) -> (G, p, d / G) the columns of each part of the fused network."""
        return V.unflatten(1, (len(self.matrices), -1)).movedim(1, 0)

    def times(self, V: Tensor) -> Tensor:
        """(p, d) xx V."""
        return (self.matrices @ self.of_fused(V)).movedim(0, 1).flatten(1)


class MomentSums:
    """Accumulates rows batch by batch; `finish` returns the moments.

    Args:
        m: columns of the outputs z.
        p: columns of the inputs x, including the column of ones; 0 to sum only outputs.
        bias: whether the last column of x is 1.
        parts: (m,) and their number, for a grouped convolution, see `Moments`.
    """

    def __init__(
        self,
        m: int,
        p: int = 0,
        *,
        bias: bool = False,
        device: torch.device | None = None,
        parts: tuple[Tensor, int] | None = None,
    ) -> None:
        self.zz = torch.zeros(m, m, dtype=torch.float64, device=device)
        self.sz = self.zz.new_zeros(m)
        self.parts, self.columns = None if parts is None else parts[0], None if parts is None else columns_of(*parts)
        matrices = () if parts is None else (parts[1],)
        most = m if self.columns is None else self.columns.shape[1]
        self.xx, self.xz = self.zz.new_zeros(*matrices, p, p), self.zz.new_zeros(*matrices, p, most)
        self.rows, self.bias, self.rounding = 0, bias, 0.0

    @devices.exact()
    def add(self, z: Tensor, x: Tensor | None = None) -> None:
        """Add rows z (n, m) and, if inputs are summed, x (n, p) or (n, G, p); products have the rows' precision.

        Raises:
            ValueError: x is missing or unexpected.
        """
        if (x is None) == bool(self.xx.numel()):
            raise ValueError("these sums need rows x and z." if x is None else "these sums are of outputs z alone.")
        self.rows += len(z)
        self.rounding = max(self.rounding, torch.finfo(z.dtype).eps)
        self.sz += column_sums(z)
        add_gram(self.zz, z)
        if x is None:
            return
        if self.columns is not None:
            x, z = x.movedim(1, 0), _apart(z, self.columns).movedim(1, 0)  # (G, n, p) and (G, n, most)
        add_gram(self.xx, x)
        add_product(self.xz, x, z)

    def finish(self) -> Moments:
        """The moments of all rows. They take over the tensors, so nothing can be added afterwards."""
        for square in (self.zz, self.xx):  # only their upper triangles are valid so far
            mirrored(square)
        xz = self.xz
        if self.columns is not None:
            xz = _together(xz, self.columns, len(self.zz))
        return Moments(self.zz, self.sz, self.xx, xz, self.rows, self.bias, self.rounding, self.parts)


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows themselves, for the dual form, which is faster if N < p (late convolutions)."""

    form: ClassVar[str] = "dual"

    x: Tensor
    """(N, p), the last column 1 if there is a bias"""
    z: Tensor
    """(N, m)"""
    bias: bool = False

    @property
    def rows(self) -> int:
        """N"""
        return len(self.z)

    @cached_property
    def zz(self) -> Tensor:
        """(m, m)"""
        return self.z.T @ self.z

    @property
    def sz(self) -> Tensor:
        """(m,)"""
        return self.z.sum(0)

    @cached_property
    def centred(self) -> tuple[Tensor, Tensor]:
        """x (N, weight columns) and z, minus their means if there is a bias, which is equivalent to not penalising it."""
        if not self.bias:
            return self.x, self.z
        return self.x[:, :-1] - self.x[:, :-1].mean(0), self.z - self.z.mean(0)

    @cached_property
    def kernel(self) -> Tensor:
        """(N, N) inner products of the centred rows x."""
        x = self.centred[0]
        return mirrored(upper_gram(x.T))

    @cached_property
    def energy(self) -> Tensor:
        """() see `Moments.energy`."""
        weights = self.x[:, :-1] if self.bias else self.x
        return torch.linalg.vector_norm(weights).square() / max(weights.shape[1], 1)

    def moments(self) -> Moments:
        """The sums in primal form."""
        sums = MomentSums(self.z.shape[1], self.x.shape[1], bias=self.bias, device=self.z.device)
        sums.add(self.z, self.x)
        return sums.finish()


def dual_is_cheaper(rows: int, p: int, m: int) -> bool:
    """Compare the floating-point operations of `Moments` and `Rows` (docs/method.md)."""
    primal = rows * p * p + 2 * rows * p * m + p**3 / 3 + 2 * p * p * m
    dual = 2 * rows * rows * p + rows**3 / 3 + 2 * rows * rows * m + 4 * rows * p * m + 2 * p * m * m
    return rows < p and dual < primal


def dual_bytes(n: int, p: int, m: int) -> int:
    """Bytes of `Rows` of n rows and of what solves them."""
    return 8 * (2 * n * (p + 2 * m) + 3 * n * n + 2 * m * m)


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


def _together(apart: Tensor, columns: Tensor, m: int) -> Tensor:
    """(G, p, most) -> (p, m)."""
    matrix = apart.new_zeros(apart.shape[1], m + 1)
    matrix[:, columns] = apart.movedim(0, 1)
    return matrix[:, :m]


# --- products over rows: x'x at half the work, sums in higher precision than products -----------------------------------


def add_gram(total: Tensor, x: Tensor) -> None:
    """Add the upper triangle of x'x to `total` (..., p, p), in block rows: half the work of the full product for large p."""
    for rows in _spans(x.shape[-1]):
        add_product(total[..., rows, rows.start :], x[..., rows], x[..., rows.start :])


def upper_gram(x: Tensor) -> Tensor:
    """x'x (..., p, p), valid in its upper triangle only."""
    total = x.new_zeros(*x.shape[:-2], x.shape[-1], x.shape[-1])
    add_gram(total, x)
    return total


def mirrored(square: Tensor) -> Tensor:
    """Copy the upper triangle of (..., p, p) into the lower one, in place, block by block."""
    for rows in _spans(square.shape[-1]):
        corner = square[..., rows, rows]
        corner.copy_(corner.triu() + corner.triu(1).mT)
        square[..., rows.stop :, rows] = square[..., rows, rows.stop :].mT
    return square


def add_product(total: Tensor, x: Tensor, z: Tensor) -> None:
    """Add x'z to `total` (..., p, m), which may be of higher precision than the product."""
    if total.dtype == x.dtype and x.ndim == 2:
        total.addmm_(x.T, z)
    else:  # float32 products, accumulated in float64 over batches
        total += x.mT @ z


def column_sums(x: Tensor) -> Tensor:
    """(p,) float64 column sums of x (n, p), by blocks of rows: converting every entry would take ten times as long."""
    blocks = len(x) // BLOCK * BLOCK
    whole = x[:blocks].view(-1, BLOCK, x.shape[1]).sum(1)
    return whole.sum(0, dtype=torch.float64) + x[blocks:].sum(0, dtype=torch.float64)


def cholesky(xx: Tensor, lam: Tensor, bias: bool) -> tuple[Tensor, Tensor]:
    """Lower factors (..., p, p) of xx + lambda D, and lambda (...), which grows tenfold while rounding makes a matrix
    indefinite."""
    ridged = xx.clone()
    diagonal = ridged.diagonal(dim1=-2, dim2=-1)[..., : xx.shape[-1] - bias]
    original = diagonal.clone()
    while True:
        diagonal.copy_(original + lam[..., None])
        factor, failed = torch.linalg.cholesky_ex(ridged)
        if not failed.any():
            return factor, lam
        more = (10 * lam).clamp_min(torch.finfo(xx.dtype).tiny ** 0.5)  # the floor is for dead inputs, with lambda = 0
        lam = torch.where(failed > 0, more, lam)


def _spans(size: int) -> Iterator[slice]:
    return (slice(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK))
