"""The assignment problem."""

import torch
from torch import Tensor


def assigned(costs: Tensor, *, maximize: bool = False) -> tuple[Tensor, Tensor]:
    """(k,) rows and (k,) columns of the optimal one-to-one assignment, on the CPU; k is the smaller side.

    Computed by scipy.optimize.linear_sum_assignment (Crouse 2016).
    Raises:
        ValueError: costs are not finite.
    """
    from scipy.optimize import linear_sum_assignment  # importing it takes half a second

    costs = costs.cpu()
    if not torch.isfinite(costs).all():
        raise ValueError(
            "the costs of matching neurons overflow or hold NaN: products of weights or of what neurons compute exceed the "
            "networks' precision. Convert them with model.double()."
        )
    rows, columns = linear_sum_assignment(costs.numpy(), maximize=maximize)
    return torch.from_numpy(rows), torch.from_numpy(columns)
