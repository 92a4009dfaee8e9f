"""Local search by single swaps of centres (Kanungo et al. 2002) after Lloyd."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ...system.settings import COUNT, setting
from ..targets import adds_in_order
from .assignment import PRECISION, first_least
from .base import Grouping, Widths, squared_distances
from .kmeans import KMeans, distances_to_centroids, lloyd


@dataclass(frozen=True)
class LocalSearch(KMeans):
    """k-means, then swaps of one centre for one neuron while the cost decreases, then Lloyd again.

    The result is never worse than its k-means start. The 9 + epsilon of Theorem 2b needs swaps of several centres at once
    among points that are not neurons; this search makes single swaps among neurons and does not claim that bound.
    """

    max_swaps: int = setting(200, "maximum number of swaps", COUNT, title="Maximum swaps")

    def __call__(
        self, gram: Tensor, scores: Tensor, widths: Widths, width: int, *, generator: torch.Generator | None = None
    ) -> Grouping:
        """Cluster the neurons; see `Grouper`.

        Raises:
            ValueError: as in `KMeans`.
        """
        start = super().__call__(gram, scores, widths, width, generator=generator)
        distances = squared_distances(gram)
        centres = _nearest_neurons(gram, scores, start.labels, width)
        swaps = 0
        while swaps < self.max_swaps and _best_swap(distances, scores, centres):
            swaps += 1
        labels, costs, _ = lloyd(gram, scores, centres[None], distances)
        report = {"algorithm": "local_search", "swaps": swaps, "start_cost": start.cost}
        if costs[0] < start.cost:
            return Grouping(labels[0], width, costs[0], report)
        return Grouping(start.labels, width, start.cost, report)


def _nearest_neurons(gram: Tensor, scores: Tensor, labels: Tensor, width: int) -> Tensor:
    """(d,) the member of each group nearest to its centroid, the first of equally near ones; groups are disjoint, so these
    centres are distinct."""
    to_own = distances_to_centroids(gram, scores, labels[None], width)[1][0]
    least = to_own.new_full((width,), torch.inf).scatter_reduce_(0, labels, to_own, "amin")
    near = to_own <= least[labels] + PRECISION * gram.diagonal().max()
    numbers = torch.arange(len(labels), device=labels.device).where(near, len(labels))
    return labels.new_full((width,), len(labels)).scatter_reduce_(0, labels, numbers, "amin")


def _best_swap(distances: Tensor, scores: Tensor, centres: Tensor) -> bool:
    """Make the best single swap in place; False if none decreases the cost.

    Swapping centre i for neuron c changes the cost by the gain of all neurons nearer to c plus the loss of i's neurons, which
    move to c or their second-nearest centre. O(m^2) for all pairs (as in FastPAM, Schubert and Rousseeuw 2019).
    """
    if len(centres) == 1:
        near, nearest = distances[centres[0]], torch.zeros(len(scores), dtype=torch.long, device=scores.device)
        second = torch.full_like(near, torch.inf)
    else:
        two = distances[centres].topk(2, dim=0, largest=False)
        near, second, nearest = two.values[0], two.values[1], two.indices[0]
    gain = (distances - near).clamp_max(0) @ scores  # (candidates,)
    # beyond `gain`, a neuron of the removed centre pays min(second, to candidate) - min(near, to candidate)
    extra = scores * (torch.minimum(second, distances) - torch.minimum(near, distances))  # (candidates, m)
    if adds_in_order(extra):
        change = gain[:, None] + torch.zeros_like(distances[:, : len(centres)]).index_add_(1, nearest, extra)
    else:
        change = gain[:, None] + extra @ one_hot(nearest, len(centres)).to(extra)
    total = (scores * near).sum()
    candidate, removed = divmod(int(first_least(change.flatten(), total)), len(centres))
    if not change[candidate, removed] < -PRECISION * total:
        return False
    centres[removed] = candidate
    return True
