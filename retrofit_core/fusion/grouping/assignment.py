"""The assignment problem, with one answer wherever it is solved."""

import numpy as np
import torch
from torch import Tensor

#: Costs that differ by less, relative to the largest, are equal. Sums in float64 differ by 1e-15 between processors.
PRECISION = 1e-12


def assigned(costs: Tensor, *, maximize: bool = False) -> tuple[Tensor, Tensor]:
    """(k,) rows and (k,) columns of the optimal one-to-one assignment, on the CPU; k is the smaller side.

    Silent or duplicate neurons have equal costs, so that several assignments are optimal, and rounding would choose one. Here a
    rule does: of all assignments that are optimal up to PRECISION, the one in which most rows are paired with the column of the
    same number, and the others with the nearest ones (least sum of squared differences).

    Computed by scipy.optimize.linear_sum_assignment (Crouse 2016), and once more among ties.
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
    rows, columns = costs.shape
    size = max(rows, columns)
    values = np.zeros((size, size))  # a longer side's rest is assigned to nothing, at no cost
    values[:rows, :columns] = -costs if maximize else costs
    # The least of each column is on every assignment's bill; without it, scipy takes half the time.
    partners = linear_sum_assignment(values - values.min(0, initial=np.inf))[1]
    for tied, equal in _ties(values, partners):
        order = partners[tied].argsort()
        theirs = partners[tied][order]
        distance = np.subtract.outer(tied, theirs)
        far = np.where(distance == 0, 0, size**2 + distance**2)
        chosen = linear_sum_assignment(np.where(equal[:, order], far, 3 * size**3))[1]
        partners[tied] = theirs[chosen]
    kept = torch.from_numpy(partners[:rows])
    left = (kept < columns).nonzero()[:, 0]
    return left, kept[left]


def first_least(values: Tensor, scale: Tensor) -> Tensor:
    """(...,) the first position along the last axis whose value is the least up to PRECISION times the scale."""
    least = values.amin(-1, keepdim=True)
    return (values <= least + PRECISION * scale).to(torch.uint8).argmax(-1)


def _ties(values: np.ndarray, partners: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sets of rows that can exchange their partners at no cost, each with (k, k) whether row i may have row j's partner.

    By complementary slackness: with optimal prices of columns, an assignment is optimal if and only if each row's partner is
    among its cheapest columns, prices included; so rows exchange partners along cycles of such columns.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    own = values[:, partners]
    least = PRECISION * np.abs(values).max(initial=0)
    extra = own - own.diagonal()[:, None]  # of row i with row j's partner instead of its own
    prices, changed = np.zeros(len(values)), np.arange(len(values))
    for _ in values:  # Bellman and Ford: each round follows one more exchange
        lower = (extra[changed] + prices[changed, None]).min(0)
        changed = np.flatnonzero(prices - lower > 1e-3 * least)
        if not len(changed):
            break
        prices[changed] = lower[changed]
    equal = extra + prices[:, None] - prices <= least
    _, labels = connected_components(csr_array(equal), connection="strong")
    sets = (np.flatnonzero(labels == label) for label in np.flatnonzero(np.bincount(labels) > 1))
    return [(tied, equal[np.ix_(tied, tied)]) for tied in sets]
