"""The plane through three networks, and the positions of other networks relative to it.

Legend: the networks are W_0 ... W_(k-1); the first three span the plane. A point is a mixture sum_i a_i W_i whose shares a_i
sum to one, so all geometry follows from the inner products of the differences W_i - W_0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .weights import gram

#: A triangle flatter than this (height over longest side) counts as a line.
FLAT = 1e-3


@dataclass(frozen=True, eq=False)
class Plane:
    """Orthonormal coordinates: W_0 at the origin, W_1 on the first axis, W_2 above it."""

    coordinates: Tensor
    """(k, 2) float64 projection of each network onto the plane, in Euclidean distance between weights"""
    distances: Tensor
    """(k,) float64 distance of each network from the plane; 0 for the first three"""
    axes: Tensor
    """(2, k) float64: axis j is the unit vector sum_i axes[j, i] W_i; each row sums to zero"""

    def shares(self, points: Tensor, start: int = 0) -> Tensor:
        """(P, k) float64 shares of the networks at points of the plane.

        Args:
            points: (P, 2) coordinates.
            start: the network that is the origin of `points`; for one off the plane, this is a parallel plane.
        """
        shares = points.double() @ self.axes
        shares[:, start] += 1
        return shares


def plane(weights: Sequence[Tensor], names: Sequence[str]) -> Plane:
    """The plane through the first three of k networks with weights (D,) each.

    Raises:
        ValueError: two of the three are equal, or they are collinear; names them.
    """
    G = gram(weights)
    height2 = G[2, 2] - G[1, 2] ** 2 / G[1, 1].clamp_min(torch.finfo(torch.float64).tiny)
    sides = torch.stack([G[1, 1], G[2, 2], G[1, 1] + G[2, 2] - 2 * G[1, 2]]).clamp_min(0).sqrt()
    height = height2.clamp_min(0).sqrt()
    longest = sides.max()
    for side, (first, last) in zip(sides.tolist(), ((0, 1), (0, 2), (1, 2)), strict=True):
        if side <= FLAT * longest:
            raise ValueError(
                f"{names[first]} and {names[last]} have the same weights, so there is no plane through them and a third network. "
                "Choose three different networks."
            )
    if height <= FLAT * longest:
        raise ValueError(
            f"{names[0]}, {names[1]} and {names[2]} are on one line, as an average and its two networks are, so "
            "many planes contain them. Choose another third network, such as the aligned parent or the fused "
            "network."
        )
    axes = torch.zeros(2, len(weights), dtype=torch.float64)
    axes[0, 1] = 1 / sides[0]
    axes[1, 2] = 1 / height
    axes[1, 1] = -G[1, 2] / G[1, 1] / height
    axes[:, 0] = -axes.sum(1)
    coordinates = G @ axes.T  # W_0 - W_0 = 0, so its share has no effect
    off = G.diagonal() - coordinates.square().sum(1)
    distances = off.clamp_min(0).sqrt()
    distances[:3] = 0
    return Plane(coordinates, distances, axes)
