"""The moment form of a layer that works channel by channel, such as a depthwise convolution (docs/method.md).

It makes no neurons, so how they are grouped is known before its sums: fused channel k stands for the neurons j with k(j) = k,
reads its own p inputs x_k only, and is fitted to its own target. Of xz no more is needed than each neuron's products with the
inputs of its own fused channel.
"""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from .choices import ridge_strength
from .solution import Solution
from .sums import Moments


@dataclass(frozen=True, eq=False)
class ChannelMoments(Moments):
    """Sums over N rows: xx (d, p, p), one matrix for each channel; xz (p, m), column j being the sum of x_k(j) z_j."""

    channels: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """(m,) k(j): the fused channel to which each column of z belongs"""

    def times(self, V: Tensor) -> Tensor:
        """(p, d) xx V: each channel's own matrix times its own weights."""
        assert self.xx is not None
        return torch.einsum("dpq,qd->pd", self.xx, V)

    def minus(self, labels: Tensor) -> "ChannelMoments":
        """The sums with z_j - h_k(j) in the place of z_j, h being the columns that stand behind the neurons.

        Args:
            labels: (m - d,) of the neurons, without the columns behind them.
        """
        assert self.xz is not None
        m = len(labels)
        B = torch.eye(len(self.zz), m).to(self.zz)
        B[m + labels, torch.arange(m, device=labels.device)] = -1
        return replace(self, zz=B.T @ self.zz @ B, sz=self.sz @ B, xz=self.xz @ B, channels=labels)


class ChannelSums:
    """Adds up the rows of a layer that works channel by channel; `finish` gives the moments.

    Args:
        channels: (m,) the fused channel to which each column of z belongs.
        width: d, the number of channels.
        p: inputs of each, the column of ones included.
        bias: the last input is 1.
    """

    def __init__(self, channels: Tensor, width: int, p: int, *, bias: bool) -> None:
        m, device = len(channels), channels.device
        self.channels, self.bias, self.rows = channels, bias, 0
        self.zz = torch.zeros(m, m, dtype=torch.float64, device=device)
        self.sz, self.xx, self.xz = self.zz.new_zeros(m), self.zz.new_zeros(width, p, p), self.zz.new_zeros(p, m)

    def add(self, z: Tensor, x: Tensor) -> None:
        """Add rows z (n, m) and each channel's inputs x (n, d, p)."""
        z, x = z.double(), x.double()
        self.rows += len(z)
        self.sz += z.sum(0)
        self.zz += z.T @ z
        self.xx += torch.einsum("ndp,ndq->dpq", x, x)
        self.xz += torch.einsum("nmp,nm->pm", x[:, self.channels], z)

    def finish(self) -> ChannelMoments:
        """The moments of all rows so far."""
        facts = {"rows": self.rows, "bias": self.bias, "channels": self.channels}
        return ChannelMoments(self.zz, self.sz, self.xx, self.xz, **facts)


def solve_channels(sums: ChannelMoments, ridge: float | str, *, toward: Tensor | None = None) -> Solution:
    """Least squares of each channel on its own inputs; the ridge's strength is relative to the energy of these.

    Directions that rounding cannot tell from zero are dropped, so that dead inputs get no weight.
    Args:
        ridge: see `ridge_strength`.
        toward: W0 (p, m), the parents' own weights, or None to shrink towards zero.
    """
    assert sums.xx is not None and sums.xz is not None
    weights = sums.xx.shape[1] - sums.bias
    pull = torch.ones(sums.xx.shape[1]).to(sums.xx)  # D
    pull[weights:] = 0
    energy = sums.xx.diagonal(dim1=1, dim2=2)[:, :weights].mean(1) if weights else sums.xx.new_zeros(len(sums.xx))
    where = "zero" if toward is None else "parents"
    lam = energy.new_tensor([ridge_strength(ridge, each, where) for each in energy.tolist()])
    values, vectors = torch.linalg.eigh(sums.xx + lam[:, None, None] * torch.diag(pull))
    kept = values > values.shape[1] * torch.finfo(values.dtype).eps * values[:, -1:].clamp_min(0)
    inverse = torch.where(kept, 1 / values.clamp_min(1e-300), 0.0)

    def fitted(A: Tensor) -> Tensor:
        assert sums.xz is not None
        right = sums.xz @ A
        if toward is not None:
            right = right + lam * pull[:, None] * (toward @ A)
        return torch.einsum("dpq,dq,drq,rd->pd", vectors, inverse, vectors, right)

    def missed(A: Tensor, V: Tensor) -> Tensor:
        assert sums.xz is not None
        return (((sums.times(V) - 2 * (sums.xz @ A)) * V).sum(0) + ((sums.zz @ A) * A).sum(0)).clamp_min(0)

    return Solution(sums.zz, lam.mean().item(), fitted, missed)


def unavoidable_by_channel(sums: ChannelMoments, scores: Tensor, vanishing: float) -> float:
    """sum_j s_j (|z_j|^2 - |projection of z_j onto the inputs of its own channel|^2)."""
    assert sums.xx is not None and sums.xz is not None
    values, vectors = torch.linalg.eigh(sums.xx)
    kept = values > vanishing * values[:, -1:].clamp_min(0)
    roots = torch.where(kept, values.clamp_min(1e-300).rsqrt(), 0.0)
    along = torch.einsum("mqp,qm->mp", vectors[sums.channels], sums.xz) * roots[sums.channels]
    return (scores @ (sums.zz.diagonal() - along.square().sum(1)).clamp_min(0)).item()
