"""The moment form: sums over rows from which grouping, fit and errors of an affine level follow (docs/method.md).

Legend: x (N, p) input rows of the fused level, the last column 1 if it has a bias; z (N, m) output rows of all parents,
side by side; xx = x'x, xz = x'z, zz = z'z, sz = sum of z: sums, not means, because the paper's ridge strengths refer to
sums. W (p, m) holds every parent neuron's own ridge fit, V (p, d) the fused weights, A (m, d) the averaging matrix,
D = diag(1, ..., 1, 0): the bias is not penalised.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import torch
from torch import Tensor

from . import device

AUTO_STRENGTH = {"zero": 1e-2, "parents": 1e-1}
"""Ridge strengths relative to the mean of the diagonal of xx; measured, docs/defaults.md."""
#: Ridge that stands for lambda -> 0 in the unavoidable error, relative as AUTO_STRENGTH: small beside the data, large
#: beside rounding; VANISHING for sums of float64 products, else ten times the rounding of the products.
VANISHING = 1e-10
#: Relative ridges from here up outweigh the rounding of float32 products (1e-7) a thousandfold and more.
_FLOAT32_SUFFICES = 1e-3
#: Rows of a block of x'x: of 192 to 5000 the fastest on an AVX-512 CPU for p = 577, 1153, 2305 and 4609.
_BLOCK = 256


@dataclass
class Moments:
    """Sums over N rows. They add up: batches, workers and parties contribute in any order and split.

    Raises nothing by itself; `solve_moments` refuses non-finite sums.
    """

    zz: Tensor
    """(m, m)"""
    sz: Tensor
    """(m,)"""
    xx: Tensor | None = None
    """(p, p), None where only the outputs were summed"""
    xz: Tensor | None = None
    """(p, m)"""
    rows: int = 0
    bias: bool = False
    rounding: float = 0.0
    """Machine epsilon of the coarsest products that were added"""

    @classmethod
    def zeros(
        cls, m: int, p: int | None = None, *, bias: bool = False, device: torch.device | None = None
    ) -> "Moments":
        """Empty sums for m parents' neurons and p inputs, the column of ones included."""
        zz = torch.zeros(m, m, dtype=torch.float64, device=device)
        xx, xz = (None, None) if p is None else (zz.new_zeros(p, p), zz.new_zeros(p, m))
        return cls(zz, zz.new_zeros(m), xx, xz, bias=bias)

    def accumulate(self, z: Tensor, x: Tensor | None = None) -> None:
        """Add rows z (n, m) and, where inputs are summed here, x (n, p); products in the rows' own precision."""
        self.rows += len(z)
        self.rounding = max(self.rounding, torch.finfo(z.dtype).eps)
        self.sz += z.sum(0, dtype=self.sz.dtype)
        _add_gram(self.zz, z)
        if x is not None:
            assert self.xx is not None and self.xz is not None
            _add_gram(self.xx, x)
            _add_product(self.xz, x, z)

    def symmetric(self) -> "Moments":
        """Fill the lower triangles, which `accumulate` leaves to the end; call once after the last rows."""
        for square in (self.zz, self.xx):
            if square is not None:
                _mirrored(square)
        return self

    def __add__(self, other: "Moments") -> "Moments":
        if (self.xx is None) != (other.xx is None) or self.zz.shape != other.zz.shape or self.bias != other.bias:
            raise ValueError("moments of different levels cannot be added: their shapes or biases differ.")
        xx = self.xx + other.xx if self.xx is not None and other.xx is not None else None
        xz = self.xz + other.xz if self.xz is not None and other.xz is not None else None
        rounding = max(self.rounding, other.rounding)
        return Moments(self.zz + other.zz, self.sz + other.sz, xx, xz, self.rows + other.rows, self.bias, rounding)

    def all_reduce(self) -> None:
        """Sum over the processes of torch.distributed, so that every rank holds the moments of all rows."""
        import torch.distributed as dist

        count = torch.tensor([self.rows], device=self.zz.device)
        for tensor in (self.zz, self.sz, self.xx, self.xz, count):
            if tensor is not None:
                dist.all_reduce(tensor)
        self.rows = int(count)

    def save(self, path: str | Path) -> None:
        """Write the sums to a safetensors file: what a party sends instead of its images."""
        from safetensors.torch import save_file

        tensors = {"zz": self.zz, "sz": self.sz, "xx": self.xx, "xz": self.xz}
        found = {name: tensor.contiguous().cpu() for name, tensor in tensors.items() if tensor is not None}
        facts = {"rows": str(self.rows), "bias": str(int(self.bias)), "rounding": str(self.rounding)}
        save_file(found, str(path), facts)

    @classmethod
    def load(cls, path: str | Path) -> "Moments":
        """Read what `save` wrote."""
        from safetensors import safe_open

        with safe_open(str(path), "pt") as file:
            meta, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return cls(**tensors, rows=int(meta["rows"]), bias=meta["bias"] == "1", rounding=float(meta["rounding"]))


@dataclass
class Rows:
    """The rows themselves: the dual form needs them in memory and pays where N < p (late convolutions)."""

    x: Tensor
    """(N, p), the last column 1 if there is a bias"""
    z: Tensor
    """(N, m)"""
    bias: bool = False

    @property
    def rows(self) -> int:
        """N"""
        return len(self.z)

    @property
    def zz(self) -> Tensor:
        """(m, m)"""
        return self.z.T @ self.z

    @property
    def sz(self) -> Tensor:
        """(m,)"""
        return self.z.sum(0)

    @cached_property
    def centred(self) -> tuple[Tensor, Tensor]:
        """x (N, weight columns) and z, minus their means where there is a bias: that is what not penalising it means."""
        if not self.bias:
            return self.x, self.z
        return self.x[:, :-1] - self.x[:, :-1].mean(0), self.z - self.z.mean(0)

    @cached_property
    def kernel(self) -> Tensor:
        """(N, N) inner products of the centred rows x."""
        x = self.centred[0]
        return _mirrored(_upper_gram(x.T))

    def moments(self) -> Moments:
        """The same sums in the primal form."""
        sums = Moments.zeros(self.z.shape[1], self.x.shape[1], bias=self.bias, device=self.z.device)
        sums.accumulate(self.z, self.x)
        return sums.symmetric()


@dataclass
class Solution:
    """Every parent neuron's own fit on the fused inputs, in the form that grouping and fit need."""

    gram: Tensor
    """(m, m) G = phi'phi: inner products of the projected neurons, exact costs at any ridge and W0"""
    strength: float
    """lambda that was used, after `auto` and after any raising"""
    weights: Callable[[Tensor], Tensor]
    """A (m, d) -> V (p, d): the fused weights for the targets z A; the row of the bias comes last"""
    missed: Callable[[Tensor, Tensor], Tensor]
    """A, V = weights(A) -> (d,): |x V_k - T_k|^2, at the cost of the right-hand side instead of that of xx V"""


def _spans(size: int) -> Iterator[slice]:
    return (slice(start, min(start + _BLOCK, size)) for start in range(0, size, _BLOCK))


def _add_gram(total: Tensor, x: Tensor) -> None:
    """Add the upper triangle of x'x to `total`, in block rows: half the work of the whole product for large p."""
    for rows in _spans(x.shape[1]):
        _add_product(total[rows, rows.start :], x[:, rows], x[:, rows.start :])


def _upper_gram(x: Tensor) -> Tensor:
    """x'x, of which only the upper triangle is right."""
    total = x.new_zeros(x.shape[1], x.shape[1])
    _add_gram(total, x)
    return total


def _mirrored(square: Tensor) -> Tensor:
    """Copy the upper triangle into the lower one, in place and block by block."""
    for rows in _spans(len(square)):
        corner = square[rows, rows]
        corner.copy_(corner.triu() + corner.triu(1).T)
        square[rows.stop :, rows] = square[rows, rows.stop :].T
    return square


def _add_product(total: Tensor, x: Tensor, z: Tensor) -> None:
    if total.dtype == x.dtype:
        total.addmm_(x.T, z)
    else:  # float32 products, accumulated in float64 over batches
        total += x.T @ z


def ridge_strength(ridge: float | str, diagonal: float, toward: str) -> float:
    """lambda of a level, in units of a sum over rows.

    Args:
        ridge: a number (the paper's convention); "0.1x" for 0.1 times the mean diagonal of xx; "auto" for the relative
            strength of AUTO_STRENGTH.
        diagonal: mean of the diagonal of xx over the weight columns.
        toward: "zero" or "parents".
    Raises:
        ValueError: none of these, or negative.
    """
    try:
        relative = isinstance(ridge, str) and ridge.endswith("x")
        factor = AUTO_STRENGTH[toward] if ridge == "auto" else float(ridge[:-1] if relative else ridge)  # type: ignore
    except ValueError:
        factor = math.nan
    if not 0 <= factor < math.inf:
        raise ValueError(
            f"ridge must be 'auto', a number from 0, or a multiple of the mean input energy such as '0.1x'. Found {ridge!r}."
        )
    return factor * diagonal if ridge == "auto" or relative else factor


def product_dtype(ridge: float | str | None, weights: torch.dtype, place: torch.device) -> torch.dtype:
    """Precision of the products whose sums are the moments.

    float64 where the device is good at it; float32 for float32 networks where the ridge outweighs their rounding (or
    no ridge is asked for: None), at twice the speed. Sums are float64 in any case.
    """
    if weights == torch.float64 or ridge is None:
        return weights
    relative = ridge if isinstance(ridge, str) else "0x"
    strength = min(AUTO_STRENGTH.values()) if relative == "auto" else float(relative[:-1])
    return torch.float32 if strength >= _FLOAT32_SUFFICES else device.sum_dtype(place)


def dual_is_cheaper(rows: int, p: int, m: int) -> bool:
    """Compare the floating-point operations of both forms (docs/method.md)."""
    primal = rows * p * p + 2 * rows * p * m + p**3 / 3 + 2 * p * p * m
    dual = 2 * rows * rows * p + rows**3 / 3 + 2 * rows * rows * m + 4 * rows * p * m + 2 * p * m * m
    return rows < p and dual < primal


def solve(sums: Moments | Rows, ridge: float | str = "auto", *, toward: Tensor | None = None) -> Solution:
    """Solve L L' = xx + lambda D, phi = L^-1 (xz + lambda D W0), G = phi'phi (docs/method.md).

    Equals numpy.linalg.lstsq at lambda = 0 and full rank, the pseudo-inverse with cut-off p x eps at lambda = 0 else.

    Args:
        ridge: see `ridge_strength`.
        toward: W0 (p, m), the parents' own weights on the fused inputs, or None to shrink towards zero.
    Raises:
        ValueError: no usable ridge, or sums that are not finite.
    """
    diagonal = _mean_diagonal(sums)
    lam = ridge_strength(ridge, diagonal, "zero" if toward is None else "parents")
    if not (torch.isfinite(sums.sz).all() and math.isfinite(diagonal)):
        raise ValueError("the sums over the fusion data are not finite: data or weights overflow or hold NaN.")
    return _solve_rows(sums, lam, toward) if isinstance(sums, Rows) else _solve_moments(sums, lam, toward)


def _mean_diagonal(sums: Moments | Rows) -> float:
    """Mean of the diagonal of xx over the weight columns: the bias left out, dead columns counted."""
    if isinstance(sums, Rows):
        diagonal = sums.x.square().sum(0)
    else:
        assert sums.xx is not None
        diagonal = sums.xx.diagonal()
    weights = diagonal[:-1] if sums.bias else diagonal
    return weights.mean().item() if len(weights) else 0.0


def _solve_moments(sums: Moments, lam: float, toward: Tensor | None) -> Solution:
    assert sums.xx is not None and sums.xz is not None
    if lam == 0:
        return _pseudo_inverse(sums)
    rhs = sums.xz if toward is None else sums.xz + lam * _without_bias(toward, sums.bias)
    factor, lam = _cholesky(sums.xx, lam, sums.bias)
    phi = torch.linalg.solve_triangular(factor, rhs, upper=False)
    gram = _mirrored(_upper_gram(phi))
    back = partial(torch.linalg.solve_triangular, factor.T, upper=True)

    def missed(A: Tensor, V: Tensor) -> Tensor:
        away = -V if toward is None else toward @ A - V
        pull = lam * _without_bias(away, sums.bias)  # xx V = xz A + lambda D (W0 A - V)
        return _squared_misses(sums, A, V, pull)

    return Solution(gram, lam, lambda A: back(phi @ A), missed)


def _without_bias(weights: Tensor, bias: bool) -> Tensor:
    """D W: the bias row set to zero."""
    if not bias:
        return weights
    weights = weights.clone()
    weights[-1] = 0
    return weights


def _cholesky(xx: Tensor, lam: float, bias: bool) -> tuple[Tensor, float]:
    """Lower factor of xx + lambda D; lambda is raised tenfold while rounding makes the matrix indefinite."""
    ridged = xx.clone()
    diagonal = ridged.diagonal()[:-1] if bias else ridged.diagonal()
    original = diagonal.clone()
    while True:
        diagonal.copy_(original + lam)
        factor, failed = torch.linalg.cholesky_ex(ridged)
        if not failed:
            return factor, lam
        lam = max(10 * lam, torch.finfo(xx.dtype).tiny ** 0.5)  # the floor: all inputs dead, lambda came out as 0


def _pseudo_inverse(sums: Moments) -> Solution:
    """lambda = 0: directions below p x eps x largest eigenvalue are dropped, as the paper's pinv does."""
    assert sums.xx is not None and sums.xz is not None
    xx, xz = sums.xx, sums.xz
    values, vectors = torch.linalg.eigh(xx)
    kept = values > len(values) * torch.finfo(xx.dtype).eps * values[-1].clamp_min(0)
    vectors, values = vectors[:, kept], values[kept]
    phi = (vectors.T @ xz) / values.sqrt()[:, None]
    back = vectors / values.sqrt()
    return Solution(phi.T @ phi, 0.0, lambda A: back @ (phi @ A), partial(_squared_misses, sums))


def _solve_rows(sums: Rows, lam: float, toward: Tensor | None) -> Solution:
    """The dual form on centred rows: W = W0 + x' Q with Q = (x x' + lambda I)^-1 (z - x W0).

    G = W' (x'x + lambda I) W follows without W: (x x' + lambda I) Q is the residual z - x W0.
    """
    if lam == 0:
        return _pseudo_inverse_rows(sums)
    x, z = sums.centred
    own = None if toward is None else toward[: x.shape[1]]
    outputs = None if own is None else x @ own
    residual = z if outputs is None else z - outputs
    factor, lam = _cholesky(sums.kernel, lam, bias=False)
    dual = torch.cholesky_solve(residual, factor)
    gram = residual.T @ (residual - lam * dual)  # x x' Q is the residual less lambda Q
    if own is not None and outputs is not None:
        cross = outputs.T @ residual  # W0' x' (x x' + lambda I) Q
        gram += cross + cross.T + outputs.T @ outputs + lam * (own.T @ own)
    gram = (gram + gram.T) / 2  # rounding aside it is symmetric
    if sums.bias:
        x_mean, z_mean = sums.x[:, :-1].mean(0), sums.z.mean(0)
        gram += sums.rows * torch.outer(z_mean, z_mean)

    def weights(A: Tensor) -> Tensor:
        V = x.T @ (dual @ A)
        V = V if own is None else V + own @ A
        return torch.cat([V, (z_mean @ A - x_mean @ V)[None]]) if sums.bias else V

    # z - x W = lambda Q
    return Solution(gram, lam, weights, lambda A, V: (lam * (dual @ A)).square().sum(0))


def _pseudo_inverse_rows(sums: Rows) -> Solution:
    """The same pseudo-inverse, column of ones included, from the eigenvectors of x x'."""
    x, z = sums.x, sums.z
    values, vectors = torch.linalg.eigh(x @ x.T)
    kept = values > x.shape[1] * torch.finfo(x.dtype).eps * values[-1].clamp_min(0)
    vectors, values = vectors[:, kept], values[kept]
    phi = vectors.T @ z
    back = vectors / values
    return Solution(phi.T @ phi, 0.0, lambda A: x.T @ (back @ (phi @ A)), partial(_squared_misses, sums))


# --- errors ----------------------------------------------------------------------------------------------------------


def grouping_error(zz: Tensor, scores: Tensor, A: Tensor) -> float:
    """sum_j s_j |z_j|^2 - sum_k S_k |T_k|^2: what replacing neurons by their group's target costs (Theorem 1)."""
    totals = _group_totals(scores, A)
    return (scores @ zz.diagonal() - totals @ ((zz @ A) * A).sum(0)).clamp_min(0).item()


def approximation_error(
    sums: Moments | Rows, scores: Tensor, A: Tensor, V: Tensor, solution: Solution | None = None
) -> float:
    """sum_k S_k |x V_k - T_k|^2: what the fitted weights miss of the targets (Theorem 1).

    Args:
        solution: the one that V comes from, if there is one: it knows what it misses at less cost.
    """
    missed = _squared_misses(sums, A, V) if solution is None else solution.missed(A, V)
    return (_group_totals(scores, A) @ missed).item()


def _squared_misses(sums: Moments | Rows, A: Tensor, V: Tensor, pull: Tensor | None = None) -> Tensor:
    """|x V_k - T_k|^2, (d,), of any weights V; pull = xx V - xz A where it is known."""
    if isinstance(sums, Rows):
        return (sums.x @ V - sums.z @ A).square().sum(0)
    assert sums.xx is not None and sums.xz is not None
    xzA = sums.xz @ A
    pull = sums.xx @ V - xzA if pull is None else pull
    return (((pull - xzA) * V).sum(0) + ((sums.zz @ A) * A).sum(0)).clamp_min(0)


def unavoidable_error(sums: Moments | Rows, scores: Tensor) -> float:
    """sum_j s_j (|z_j|^2 - |projection of z_j onto the fused inputs|^2) at a vanishing ridge.

    The part of the cost that no weights of this level could avoid, whatever the grouping.
    """
    diagonal = _mean_diagonal(sums)
    if isinstance(sums, Rows):
        factor, lam = _cholesky(sums.kernel, VANISHING * diagonal, bias=False)
        missed = lam * torch.cholesky_solve(sums.centred[1], factor)  # z - K (K + lambda I)^-1 z
        return (scores @ missed.square().sum(0)).item()
    assert sums.xx is not None and sums.xz is not None
    lam = max(VANISHING, 10 * sums.rounding) * diagonal
    factor, _ = _cholesky(sums.xx, lam, sums.bias)
    explained = torch.linalg.solve_triangular(factor, sums.xz, upper=False).square().sum(0)
    return (scores @ (sums.zz.diagonal() - explained).clamp_min(0)).item()


def _group_totals(scores: Tensor, A: Tensor) -> Tensor:
    """S_k: the sum of the scores over each group, from the non-zero pattern of A."""
    return (A != 0).to(scores.dtype).T @ scores
