"""Weighted k-means on neurons, from their Gram matrix alone (paper App. B.1; Arthur and Vassilvitskii 2007).

The points are the columns of phi, which are never needed: distances to centroids follow from G. Memberships are one-hot,
so one Lloyd step costs O(m^2) a restart: a row-wise sum of G over groups, no product with a centroid matrix.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..settings import COUNT, setting
from ..targets import adds_in_order, group_sums
from .base import Grouper, Grouping, check_enough, squared_distances

ITERATIONS = 300
#: For the estimate: iterations of Lloyd that are usual, and element operations a second.
USUAL_ITERATIONS, ELEMENTS_A_SECOND = 15, 1e9


@dataclass(frozen=True)
class KMeans(Grouper):
    """Weighted k-means: similar neurons in one group, whichever parents they come from.

    Greedy k-means++ with restarts, Lloyd to convergence; the lowest cost wins. Equals scikit-learn's
    KMeans(init="k-means++", n_init=restarts) with sample weights on points of this Gram matrix.
    """

    is_random: ClassVar[bool] = True

    restarts: int = setting(10, "starts of k-means (greedy k-means++); the lowest cost wins", COUNT)
    first_parent: bool = setting(True, "also start once at parent 0's neurons, where it has enough of them")

    def check(self, widths: tuple[int, ...], width: int) -> None:
        """Refuse more groups than neurons, and a search that has no start."""
        check_enough(widths, width)
        if not self.restarts and not (self.first_parent and widths[0] >= width):
            raise ValueError("kmeans needs restarts >= 1 where parent 0 has fewer neurons than the fused level.")

    def seconds(self, m: int, width: int) -> float:
        """Seeding, and a usual number of iterations."""
        seeding = self.restarts * width * (2 + math.log(width)) * m
        return width * 1e-4 + (3 * seeding + (self.restarts + 1) * USUAL_ITERATIONS * m * m) / ELEMENTS_A_SECOND

    def __call__(
        self,
        gram: Tensor,
        scores: Tensor,
        widths: tuple[int, ...],
        width: int,
        *,
        generator: torch.Generator | None = None,
    ) -> Grouping:
        """Cluster the neurons; see `Grouper`.

        Raises:
            ValueError: more groups than neurons, or no start.
        """
        self.check(widths, width)
        distances = squared_distances(gram)
        starts = [seed_centres(distances, scores, width, self.restarts, generator)] if self.restarts else []
        if self.first_parent and widths[0] >= width:
            starts.append(torch.arange(width, device=gram.device)[None])
        labels, costs, iterations = lloyd(gram, scores, torch.cat(starts), distances)
        best = int(costs.argmin())
        report = {
            "algorithm": "kmeans",
            "restarts": len(costs),
            "best_start": best,
            "iterations": iterations,
            "costs": costs.tolist(),
        }
        return Grouping(labels[best], width, costs[best].item(), report)


def seed_centres(
    distances: Tensor, scores: Tensor, width: int, restarts: int, generator: torch.Generator | None
) -> Tensor:
    """(restarts, width) neurons chosen by greedy k-means++: the best of 2 + log k draws at each step, as scikit-learn.

    A draw picks neuron j with probability proportional to s_j times its squared distance to the nearest centre.
    """
    trials = 2 + int(math.log(width))
    draws = torch.rand(width, restarts, trials, generator=generator, dtype=distances.dtype).to(distances.device)
    weights = scores if scores.sum() > 0 else torch.ones_like(scores)
    centres = torch.empty(restarts, width, dtype=torch.long, device=distances.device)
    nearest = torch.ones(restarts, 1, dtype=distances.dtype, device=distances.device).expand(-1, len(scores))
    for k in range(width):
        potential = (nearest * weights).cumsum(1)  # (restarts, m)
        levels = draws[k] * potential[:, -1:]
        candidates = torch.searchsorted(potential, levels, right=True).clamp_max_(len(scores) - 1)
        if k == 0:  # nothing to compare the first centre with: one plain weighted draw
            candidates = candidates[:, :1]
        reached = distances[candidates]  # (restarts, trials, m)
        if k:
            reached = torch.minimum(reached, nearest[:, None])
        chosen = (reached @ weights).argmin(1)
        rows = torch.arange(restarts, device=distances.device)
        centres[:, k], nearest = candidates[rows, chosen], reached[rows, chosen]
    return centres


def lloyd(
    gram: Tensor, scores: Tensor, centres: Tensor, distances: Tensor, iterations: int = ITERATIONS
) -> tuple[Tensor, Tensor, int]:
    """Weighted Lloyd iterations from the given centre neurons, all restarts together.

    The cost never rises; a group that runs empty takes the worst-served neuron (largest score times distance).

    Args:
        centres: (restarts, d) neurons that start as centres.
    Returns:
        labels (restarts, m), costs (restarts,), number of iterations of the longest restart.
    """
    labels = _start_labels(distances, centres)
    costs = torch.full((len(centres),), math.inf, dtype=gram.dtype, device=gram.device)
    active = torch.arange(len(centres), device=gram.device)
    steps = 0
    while len(active) and steps < iterations:
        steps += 1
        current = labels[active]
        moved, to_own = _nearest_centroids(gram, scores, current, centres.shape[1])
        cost = to_own @ scores
        falling = cost < costs[active]  # rounding can make a converged restart swap twins for ever
        costs[active] = torch.minimum(costs[active], cost)
        _refill_empty_groups(moved, to_own * scores, centres.shape[1])
        going_on = falling & (moved != current).any(1)
        labels[active[going_on]] = moved[going_on]
        active = active[going_on]
    return labels, costs, steps


def _nearest_centroids(gram: Tensor, scores: Tensor, labels: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """(restarts, m) each neuron's nearest centroid, and its squared distance to its own.

    On a CPU one restart at a time: its distances stay in the cache, which those of all restarts do not.
    """
    moved, to_own = torch.empty_like(labels), scores.new_empty(labels.shape)
    at_once = len(labels) if gram.is_cuda else 1
    for some in torch.arange(len(labels)).split(at_once):
        distances, to_own[some] = distances_to_centroids(gram, scores, labels[some], width)
        moved[some] = distances.argmin(1)
    return moved, to_own


def _start_labels(distances: Tensor, centres: Tensor) -> Tensor:
    """(restarts, m) nearest centre; a centre belongs to its own group even beside an equal one, so no group starts empty."""
    labels = torch.stack([distances[centre].argmin(0) for centre in centres])
    numbers = torch.arange(centres.shape[1], device=centres.device).expand_as(centres)
    labels.scatter_(1, centres, numbers)
    _refill_empty_groups(
        labels, torch.ones_like(labels, dtype=distances.dtype), centres.shape[1]
    )  # a centre drawn twice
    return labels


def distances_to_centroids(gram: Tensor, scores: Tensor, labels: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Squared distances of every neuron to every weighted centroid, and to its own.

    |phi_j - c_k|^2 = G_jj - 2 (A'G)_kj + (A'GA)_kk, where A'G is a sum of rows of G over each group.

    Args:
        labels: (restarts, m).
    Returns:
        (restarts, d, m) and (restarts, m).
    """
    restarts, m = labels.shape
    totals = group_sums(scores, labels, width)
    counts = group_sums(torch.ones_like(scores), labels, width)
    mine, size = totals.gather(1, labels), counts.gather(1, labels)
    shares = torch.where(mine > 0, scores / mine.clamp_min(1e-300), 1 / size)
    if adds_in_order(gram):
        products = gram.new_zeros(restarts, width, m)  # A'G
        for r in range(restarts):
            products[r].index_add_(0, labels[r], gram * shares[r, :, None])
    else:
        members = labels[:, None] == torch.arange(width, device=labels.device)[:, None]
        products = (members * shares[:, None]) @ gram
    to_own = products.gather(1, labels[:, None])[:, 0]
    norms = group_sums(shares * to_own, labels, width)
    to_own = (gram.diagonal() - 2 * to_own + norms.gather(1, labels)).clamp_min_(0)
    return products.mul_(-2).add_(norms[:, :, None]).add_(gram.diagonal()), to_own


def _refill_empty_groups(labels: Tensor, badness: Tensor, width: int) -> None:
    """Move the worst-served neurons (of groups with company) into empty groups, in place."""
    for row, bad in zip(labels, badness, strict=True):
        counts = torch.bincount(row, minlength=width)
        for empty in (counts == 0).nonzero()[:, 0].tolist():
            worst = torch.where(counts[row] > 1, bad, -1.0).argmax()
            counts[row[worst]] -= 1
            row[worst] = empty
            counts[empty] = 1
