"""The closed form for affine levels (paper sec. 4.2.2 a)."""

import torch
from torch import Tensor

from ..levels import Level
from ..moments import Solution


@torch.no_grad()
def ridge(level: Level, solution: Solution, A: Tensor) -> Tensor:
    """Write the weights that fit the targets z A best into an affine level.

    Minimises sum_k S_k |x v_k - T_k|^2 + lambda x the penalty of docs/method.md; equals numpy.linalg.lstsq on the
    targets at lambda = 0 and full rank. The scores decide the targets only: per output they cancel.

    Args:
        A: (m, d) averaging matrix of the grouping; columns sum to 1.
    Returns:
        V (p, d), the bias in its last row.
    """
    assert level.affine is not None
    V = solution.weights(A)
    write_weights(level, V)
    return V


@torch.no_grad()
def write_weights(level: Level, V: Tensor) -> None:
    """Copy V (p, d) into the level's affine layer, the last row into its bias where it has one."""
    affine = level.affine
    assert affine is not None
    weights = V
    if affine.bias is not None:
        weights = V[:-1]
        affine.bias.copy_(V[-1])
    affine.weight.copy_(weights.T.reshape(affine.weight.shape))
