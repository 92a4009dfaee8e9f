"""Numbers of neurons, some of which are known to be the same.

A tensor's *twin* has the tensor's shape and holds, for each entry, the number of the neuron to which it belongs. Twins mostly
repeat one line of numbers, so they are expanded views where possible, and all functions here work on what is not repeated.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
import torch
from torch import Tensor

#: The number of what stays in place (pixels, tokens, positions, classes), and of entries that are the same for all neurons
#: (zeros, norms of neurons).
FIXED, UNIFORM = 0, 1


class Ids:
    """A partition of numbers: `of(twin)` names each by the least number that is known to be the same."""

    def __init__(self) -> None:
        self.root = torch.arange(2)

    def fresh(self, *shape: int) -> Tensor:
        """New numbers, in a shape."""
        numbers = torch.arange(len(self.root), len(self.root) + prod(shape))
        self.root = torch.cat([self.root, numbers])
        return numbers.view(shape)

    def of(self, ids: Tensor) -> Tensor:
        """The numbers by which those of a twin are known now, in its shape."""
        return self.root[once(ids)].expand(ids.shape)

    def unify(self, left: Tensor, right: Tensor, *, loose: bool = False) -> None:
        """Say that two tensors (of shapes that broadcast) hold the same neurons, entry by entry.

        Args:
            loose: entries that are the same for all neurons say nothing; else they stay in place.
        """
        left, right = torch.broadcast_tensors(self.root[once(left)], self.root[once(right)])
        differ = left != right
        if not differ.any():
            return
        left, right = left[differ], right[differ]
        if loose:
            told = (left != UNIFORM) & (right != UNIFORM)
            left, right = left[told], right[told]
        else:
            left, right = (torch.where(side == UNIFORM, FIXED, side) for side in (left, right))
        pairs = torch.stack([left, right], 1).unique(dim=0).numpy() if len(left) < 1000 else _unique(left, right)
        numbers, places = np.unique(pairs, return_inverse=True)
        if not len(numbers):
            return
        first, second = places.reshape(-1, 2).T
        from scipy.sparse import coo_matrix  # importing them takes a while
        from scipy.sparse.csgraph import connected_components

        links = coo_matrix((np.ones(len(first)), (first, second)), shape=(len(numbers), len(numbers)))
        count, labels = connected_components(links, directed=False)
        least = np.full(count, numbers[-1])
        np.minimum.at(least, labels, numbers)
        new = torch.arange(len(self.root))
        new[torch.from_numpy(numbers)] = torch.from_numpy(least[labels])
        self.root = new[self.root]

    def line(self, ids: Tensor, axis: int) -> Tensor:
        """(n,) numbers along an axis, which are said to be the same everywhere else."""
        lines = once(ids).movedim(axis, -1).flatten(0, -2)
        if len(lines) > 1:
            self.unify(lines, lines[:1])
        return self.of(lines[0]).expand(ids.shape[axis])


def _unique(left: Tensor, right: Tensor) -> np.ndarray:
    large = int(max(left.max(), right.max())) + 1
    pairs = (left * large + right).unique().numpy()
    return np.stack([pairs // large, pairs % large], 1)


def once(ids: Tensor) -> Tensor:
    """The same numbers, once along axes on which they are repeated as a view."""
    return ids[tuple(slice(0, 1) if step == 0 else slice(None) for step in ids.stride())]


def varying(ids: Tensor) -> list[int]:
    """The axes along which numbers differ."""
    ids = once(ids)
    return [axis for axis in range(ids.ndim) if ids.shape[axis] > 1 and bool((ids != ids.narrow(axis, 0, 1)).any())]


def on_axis(line: Tensor, axis: int, shape: Sequence[int]) -> Tensor:
    """A twin of a shape with a line of numbers along an axis."""
    return line.view([-1 if place == axis % len(shape) else 1 for place in range(len(shape))]).expand(shape)
