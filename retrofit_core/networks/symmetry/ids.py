"""Ids for neurons, and which ids mean the same neuron: vectorised union-find."""

import numpy as np
import torch
from torch import Tensor

#: The id of everything that must not be permuted: pixels, positions.
FIXED = 0


class Ids:
    """Ids 0, 1, ..., some of which are known to be the same neuron."""

    def __init__(self) -> None:
        self.root = torch.zeros(1, dtype=torch.int64)

    def fresh(self, *shape: int) -> Tensor:
        """New ids, different from all others."""
        count = int(np.prod(shape))
        numbers = torch.arange(len(self.root), len(self.root) + count)
        self.root = torch.cat([self.root, numbers])
        return numbers.view(shape)

    def of(self, ids: Tensor) -> Tensor:
        """Each id's representative, equal exactly for ids of the same neuron."""
        return self.root[ids]

    def unify(self, left: Tensor, right: Tensor) -> None:
        """Declare two tensors of ids (of broadcastable shapes) the same, entry by entry."""
        left, right = torch.broadcast_tensors(self.of(left), self.of(right))
        if torch.equal(left, right):
            return
        n = len(self.root)
        keys = (torch.minimum(left, right) * n + torch.maximum(left, right)).flatten().unique().numpy()
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        edges = coo_matrix((np.ones(len(keys), np.int8), (keys // n, keys % n)), shape=(n, n))
        count, labels = connected_components(edges, directed=False)
        labels = torch.from_numpy(labels.astype(np.int64))
        least = torch.full((count,), n).scatter_reduce_(0, labels, torch.arange(n), "amin")
        self.root = least[labels[self.root]]

    def constant_along(self, ids: Tensor, axis: int) -> Tensor:
        """(n,) ids along one axis, declared the same at all positions of the other axes."""
        lines = ids.movedim(axis, -1).reshape(-1, ids.shape[axis])
        self.unify(lines, lines[:1])
        return self.of(lines[0])
