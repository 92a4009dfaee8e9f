"""Agreement of groupings: the adjusted Rand index, 1 for equal groupings, 0 on average for independent ones."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor


def adjusted_rand(left: Tensor, right: Tensor) -> float:
    """Adjusted Rand index of two label vectors (m,) (range -0.5 to 1)."""
    from sklearn.metrics import adjusted_rand_score  # importing it takes two seconds

    return float(adjusted_rand_score(left.cpu().numpy(), right.cpu().numpy()))


def adjusted_rand_matrix(labels: Sequence[Tensor]) -> np.ndarray:
    """(k, k) adjusted Rand indices of all pairs."""
    return np.array([[adjusted_rand(left, right) for right in labels] for left in labels])
