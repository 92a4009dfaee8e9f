"""Weights of networks of one architecture as points of one space, the plane through three of them, and others' positions.

Legend: the networks are W_0 ... W_(k-1); the first three span the plane. A point is a mixture sum_i a_i W_i whose shares a_i
sum to one, so all geometry follows from the inner products of the differences W_i - W_0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

#: A triangle flatter than this (height over longest side) counts as a line.
FLAT = 1e-3
#: Weights per part.
PART = 1_000_000


def parameters(model: nn.Module) -> dict[str, Tensor]:
    """The parameters; those that two modules share appear once."""
    return dict(model.named_parameters())


def statistics(model: nn.Module) -> dict[str, Tensor]:
    """BatchNorm means and variances, and all other floating-point buffers."""
    return {name: buffer for name, buffer in model.named_buffers() if buffer.dtype.is_floating_point}


def flat(tensors: Mapping[str, Tensor]) -> Tensor:
    """(D,) the tensors one after the other."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors.values()])


def views(numbers: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Views of the tensors in (D,), or of the stacked tensors in (P, D), by name."""
    parts = numbers.split([tensor.numel() for tensor in like.values()], -1)
    return {
        name: part.view((*numbers.shape[:-1], *tensor.shape))
        for part, (name, tensor) in zip(parts, like.items(), strict=True)
    }


def check_alike(networks: Mapping[str, nn.Module]) -> None:
    """Refuse networks that are not points of one space.

    Raises:
        ValueError: no weights, a tensor that one lacks or that has another shape (names it), or different types.
    """
    (first, model), *others = networks.items()
    ours = {**parameters(model), **statistics(model)}
    if not parameters(model):
        raise ValueError(f"{first} has no weights, so there is no landscape around it.")
    for name, other in others:
        theirs = {**parameters(other), **statistics(other)}
        for key in dict.fromkeys((*ours, *theirs)):
            shapes = [tuple(of[key].shape) if key in of else None for of in (ours, theirs)]
            words = ["absent" if shape is None else f"of shape {shape}" for shape in shapes]
            if shapes[0] != shapes[1]:
                raise ValueError(
                    f"a plane goes through networks of one architecture, but {key!r} is {words[0]} in {first} and "
                    f"{words[1]} in {name}. Choose networks of the same shapes."
                )
        dtypes = {tensor.dtype for each in (model, other) for tensor in parameters(each).values()}
        if len(dtypes) > 1:
            listed = " and ".join(sorted(map(str, dtypes)))
            raise ValueError(f"{first} and {name} have weights of different types, {listed}. Convert them.")


def gram(weights: Sequence[Tensor]) -> Tensor:
    """(k, k) float64 inner products of networks' differences to the first, (D,) each, computed in parts."""
    total = torch.zeros(len(weights), len(weights), dtype=torch.float64)
    for parts in zip(*(flat.split(PART) for flat in weights), strict=True):
        first = parts[0].double()
        differences = torch.stack([part.double() - first for part in parts])
        total += (differences @ differences.T).cpu()
    return total


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
