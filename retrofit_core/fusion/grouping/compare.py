"""Agreement of groupings: the adjusted Rand index, 1 for equal groupings, 0 on average for independent ones."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor


def adjusted_rand(left: Tensor, right: Tensor) -> float:
    """Adjusted Rand index of two label vectors (m,) (range -0.5 to 1)."""
    from sklearn.metrics import adjusted_rand_score  # here: it takes two seconds to import

    return float(adjusted_rand_score(left.cpu().numpy(), right.cpu().numpy()))


def adjusted_rand_matrix(labels: Sequence[Tensor]) -> np.ndarray:
    """(k, k) indices of every pair of groupings."""
    return np.array([[adjusted_rand(left, right) for right in labels] for left in labels])
