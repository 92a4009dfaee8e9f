"""Sums over rows, their accumulator, and the rows themselves."""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from ...system import device as devices
from .products import add_gram, add_product, column_sums, mirrored, upper_gram


@dataclass(frozen=True, eq=False)
class Moments:
    """Immutable sums over N rows. They add up, so rows can be split in any way.

    `MomentSums` accumulates them from batches of rows. `solve` raises ValueError if they are not finite.
    """

    zz: Tensor
    """(m, m)"""
    sz: Tensor
    """(m,)"""
    xx: Tensor | None = None
    """(p, p); None if only outputs were summed"""
    xz: Tensor | None = None
    """(p, m)"""
    rows: int = 0
    """N"""
    bias: bool = False
    """Whether the last column of x is 1"""
    rounding: float = 0.0
    """Machine epsilon of the least precise products added"""

    @cached_property
    def mean_diagonal(self) -> float:
        """Mean of the diagonal of xx over the weight columns, without the bias but with dead columns."""
        assert self.xx is not None
        diagonal = self.xx.diagonal()[:-1] if self.bias else self.xx.diagonal()
        return diagonal.mean().item() if len(diagonal) else 0.0

    def __add__(self, other: "Moments") -> "Moments":
        """Moments of both sets of rows.

        Raises:
            ValueError: they belong to different levels.
        """
        if (self.xx is None) != (other.xx is None) or self.zz.shape != other.zz.shape or self.bias != other.bias:
            raise ValueError("moments of different levels cannot be added: their shapes or biases differ.")
        if self.xx is not None and other.xx is not None and self.xx.shape != other.xx.shape:
            raise ValueError("moments of different levels cannot be added: their numbers of inputs differ.")
        xx = self.xx + other.xx if self.xx is not None and other.xx is not None else None
        xz = self.xz + other.xz if self.xz is not None and other.xz is not None else None
        rounding = max(self.rounding, other.rounding)
        zz, sz, rows = self.zz + other.zz, self.sz + other.sz, self.rows + other.rows
        return replace(self, zz=zz, sz=sz, xx=xx, xz=xz, rows=rows, rounding=rounding)

    def times(self, V: Tensor) -> Tensor:
        """(p, d) xx V."""
        assert self.xx is not None
        return self.xx @ V

    def minus(self, labels: Tensor) -> "Moments":
        """The sums with z_j - h_k(j) in place of z_j, where h are the columns after the neurons, if any.

        Args:
            labels: (m - d,) k of the neurons, without the columns after them.
        """
        if len(labels) == len(self.zz):
            return self
        assert self.xz is not None
        B = beyond(self.zz, labels)
        return replace(self, zz=B.T @ self.zz @ B, sz=self.sz @ B, xz=self.xz @ B)


class MomentSums:
    """Accumulates rows batch by batch; `finish` returns the moments.

    Args:
        m: columns of the outputs z.
        p: columns of the inputs x, including the column of ones; None to sum only outputs.
        bias: whether the last column of x is 1.
    """

    def __init__(self, m: int, p: int | None = None, *, bias: bool = False, device: torch.device | None = None) -> None:
        self.zz = torch.zeros(m, m, dtype=torch.float64, device=device)
        self.sz = self.zz.new_zeros(m)
        self.xx, self.xz = (None, None) if p is None else (self.zz.new_zeros(p, p), self.zz.new_zeros(p, m))
        self.rows, self.bias, self.rounding, self._finished = 0, bias, 0.0, False

    @devices.exact()
    def add(self, z: Tensor, x: Tensor | None = None) -> None:
        """Add rows z (n, m) and, if inputs are summed, x (n, p); products have the rows' precision.

        Raises:
            ValueError: x is missing or unexpected, or `finish` was called before.
        """
        if self._finished:
            raise ValueError("these sums are finished. Add the moments of further rows to them with +.")
        if (x is None) != (self.xx is None):
            raise ValueError("these sums need rows x and z." if x is None else "these sums are of outputs z alone.")
        self.rows += len(z)
        self.rounding = max(self.rounding, torch.finfo(z.dtype).eps)
        self.sz += column_sums(z)
        add_gram(self.zz, z)
        if x is not None and self.xx is not None and self.xz is not None:
            add_gram(self.xx, x)
            add_product(self.xz, x, z)

    def finish(self) -> Moments:
        """The moments of all rows. They take over the tensors, so nothing can be added afterwards."""
        if not self._finished:
            for square in (self.zz, self.xx):  # only their upper triangles are valid so far
                if square is not None:
                    mirrored(square)
        self._finished = True
        return Moments(self.zz, self.sz, self.xx, self.xz, self.rows, self.bias, self.rounding)


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows themselves, for the dual form, which is faster if N < p (late convolutions)."""

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
    def mean_diagonal(self) -> float:
        """See `Moments.mean_diagonal`."""
        weights = self.x[:, :-1] if self.bias else self.x
        return (torch.linalg.vector_norm(weights).square() / max(weights.shape[1], 1)).item()

    def minus(self, labels: Tensor) -> "Rows":
        """See `Moments.minus`."""
        return self if len(labels) == self.z.shape[1] else replace(self, z=self.z @ beyond(self.z, labels))

    def moments(self) -> Moments:
        """The sums in primal form."""
        sums = MomentSums(self.z.shape[1], self.x.shape[1], bias=self.bias, device=self.z.device)
        sums.add(self.z, self.x)
        return sums.finish()


def beyond(columns: Tensor, labels: Tensor) -> Tensor:
    """(m, m - d) the matrix that subtracts column m - d + k(j) of z from column j.

    Args:
        columns: (..., m) any tensor over the columns of z.
        labels: (m - d,) k.
    """
    m = len(labels)
    B = torch.eye(columns.shape[-1], m, dtype=columns.dtype, device=columns.device)
    B[m + labels, torch.arange(m, device=labels.device)] = -1
    return B
