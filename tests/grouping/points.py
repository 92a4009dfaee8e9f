"""Points, their Gram matrix and scores for the grouping tests."""

import numpy as np
import torch
from torch import Tensor

from tests.networks import normal


def points(m: int, dims: int = 3, seed: int = 0) -> Tensor:
    """(dims, m) columns."""
    return normal(dims, m, seed=seed)


def gram(phi: Tensor) -> Tensor:
    return phi.T @ phi


def positive(m: int, seed: int = 0) -> Tensor:
    """(m,) scores between 0.1 and about 3, far from equal."""
    return normal(m, seed=100 + seed).abs() + 0.1


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


HARD = {
    "plain": (points(10), positive(10)),
    "equal scores": (points(10), torch.full((10,), 0.1).double()),
    "zero scores": (points(10), torch.tensor([0.0, 0, 1, 2, 0, 1, 3, 0, 0, 1]).double()),
    "all scores zero": (points(10), torch.zeros(10).double()),
    "one dimension": (points(10, dims=1), positive(10)),
    "dead neurons": (points(10) * torch.tensor([1.0, 0, 1, 1, 0, 1, 1, 1, 0, 1]), positive(10)),
    "twins": (points(5).repeat(1, 2), positive(10)),
    "all alike": (points(1).repeat(1, 10), positive(10)),
    "huge": (points(10) * 1e8, positive(10) * 1e-12),
    "tiny": (points(10) * 1e-8, positive(10) * 1e12),
}


def numpy(*tensors: Tensor) -> list[np.ndarray]:
    return [tensor.cpu().numpy() for tensor in tensors]
