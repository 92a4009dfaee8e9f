"""Weighted k-means on neurons, from their Gram matrix alone (paper App. B.1; Arthur and Vassilvitskii 2007).

The points are the columns of phi, which are never needed: distances to centroids follow from G. Memberships are one-hot,
so one Lloyd step costs O(m^2) a restart: a row-wise sum of G over groups, no product with a centroid matrix.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ...system.settings import COUNT, setting
from ..targets import adds_in_order, group_sums, shares
from .base import Grouper, Grouping, Widths, check_enough, squared_distances

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

    def check(self, widths: Widths, width: int) -> None:
        """Refuse more groups than neurons, and a search that has no start."""
        check_enough(widths, width)
        if not self.restarts and not (self.first_parent and widths[0] >= width):
            raise ValueError("kmeans needs restarts >= 1 where parent 0 has fewer neurons than the fused level.")

    def seconds(self, m: int, width: int) -> float:
        """Seeding, and a usual number of iterations."""
        seeding = self.restarts * width * (2 + math.log(width)) * m
        return width * 1e-4 + (3 * seeding + (self.restarts + 1) * USUAL_ITERATIONS * m * m) / ELEMENTS_A_SECOND

    def __call__(
        self, gram: Tensor, scores: Tensor, widths: Widths, width: int, *, generator: torch.Generator | None = None
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
        reached = distances.index_select(0, candidates.flatten()).view(*candidates.shape, -1)  # (restarts, trials, m)
        if k:
            torch.minimum(reached, nearest[:, None], out=reached)
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
    starts = _start_labels(distances, centres)
    at_once = 1 if adds_in_order(gram) else len(starts)  # one after the other, a step renews only what changed
    runs = [_descend(gram, scores, labels, centres.shape[1], iterations) for labels in starts.split(at_once)]
    labels, costs, steps = zip(*runs, strict=True)
    return torch.cat(labels), torch.cat(costs), max(steps)


def _descend(gram: Tensor, scores: Tensor, labels: Tensor, width: int, iterations: int) -> tuple[Tensor, Tensor, int]:
    """Lloyd iterations of some restarts together; labels (restarts, m) are changed in place."""
    centroids = Centroids(gram, scores, width) if adds_in_order(gram) else None
    costs = torch.full((len(labels),), math.inf, dtype=gram.dtype, device=gram.device)
    active = torch.arange(len(labels), device=gram.device)
    steps = 0
    while len(active) and steps < iterations:
        steps += 1
        current = labels[active]
        if centroids is None:
            distances, to_own = distances_to_centroids(gram, scores, current, width)
            moved = distances.argmin(1)
        else:
            centroids.move_to(current[0])
            moved, to_own = centroids.nearest.clone()[None], centroids.to_own[None]
        cost = to_own @ scores
        falling = cost < costs[active]  # rounding can make a converged restart swap twins for ever
        costs[active] = torch.minimum(costs[active], cost)
        _refill_empty_groups(moved, to_own * scores, width)
        going_on = falling & (moved != current).any(1)
        labels[active[going_on]] = moved[going_on]
        active = active[going_on]
    return labels, costs, steps


def _start_labels(distances: Tensor, centres: Tensor) -> Tensor:
    """(restarts, m) nearest centre; a centre belongs to its own group even beside an equal one, so no group starts empty."""
    labels = torch.stack([distances[centre].min(0).indices for centre in centres])
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
    if adds_in_order(gram):
        each = [Centroids(gram, scores, width) for _ in labels]
        for centroids, row in zip(each, labels, strict=True):
            centroids.move_to(row)
        return torch.stack([c.distances for c in each]), torch.stack([c.to_own for c in each])
    weights = shares(labels, scores, width)
    members = labels[:, None] == torch.arange(width, device=labels.device)[:, None]
    products = (members * weights[:, None]) @ gram  # A'G
    to_own = products.gather(1, labels[:, None])[:, 0]
    norms = group_sums(weights * to_own, labels, width)
    to_own = (gram.diagonal() - 2 * to_own + norms.gather(1, labels)).clamp_min_(0)
    return products.mul_(-2).add_(norms[:, :, None]).add_(gram.diagonal()), to_own


class Centroids:
    """The distances of `distances_to_centroids` for one grouping that changes little by little.

    After the first steps of Lloyd some twenty of a thousand neurons move. Only the distances to centroids of groups that
    lost or won one are computed again, in the same order of additions, so that they equal those of a fresh start.
    """

    def __init__(self, gram: Tensor, scores: Tensor, width: int) -> None:
        m = len(gram)
        self.gram, self.scores, self.norms = gram, scores, gram.diagonal()
        self.distances = gram.new_full((width, m), math.inf)
        self.to_own = gram.new_empty(m)
        self.labels = torch.full((m,), -1, device=gram.device)
        self.nearest = torch.zeros_like(self.labels)
        self.to_nearest = gram.new_full((m,), math.inf)

    def move_to(self, labels: Tensor) -> None:
        """Renew what the grouping (m,) changes."""
        groups = torch.cat([self.labels, labels])[(labels != self.labels).repeat(2)].unique()
        groups = groups[groups >= 0]
        changed = torch.zeros(len(self.distances), dtype=torch.bool, device=labels.device)
        changed[groups] = True
        members = changed[labels].nonzero()[:, 0]
        group = (changed.cumsum(0) - 1)[labels[members]]  # row of a member's group among the changed ones
        weights = shares(labels, self.scores, len(self.distances))[members]
        products = self.gram.new_zeros(len(groups), len(labels))  # A'G
        rows = self.gram if len(members) == len(labels) else self.gram[members]
        products.index_add_(0, group, rows * weights[:, None])
        of_members = products[group, members]
        norms = group_sums(weights * of_members, group, len(groups))
        self.to_own[members] = (self.norms[members] - 2 * of_members + norms[group]).clamp_min_(0)
        self.labels = labels.clone()
        self._renew(groups, changed, products.mul_(-2).add_(norms[:, None]).add_(self.norms))

    def _renew(self, groups: Tensor, changed: Tensor, rows: Tensor) -> None:
        """Put in the distances (groups, m) to changed centroids; search all centroids only for neurons that lost theirs."""
        self.distances[groups] = rows
        if not len(groups):
            return
        least, index = rows.min(0)
        group = groups[index]
        nearer = (least < self.to_nearest) | ((least == self.to_nearest) & (group < self.nearest))
        lost = (changed[self.nearest] & ~nearer).nonzero()[:, 0]
        self.nearest = torch.where(nearer, group, self.nearest)
        self.to_nearest = torch.where(nearer, least, self.to_nearest)
        self.to_nearest[lost], self.nearest[lost] = self.distances[:, lost].min(0)


def _refill_empty_groups(labels: Tensor, badness: Tensor, width: int) -> None:
    """Move the worst-served neurons (of groups with company) into empty groups, in place."""
    for row, bad in zip(labels, badness, strict=True):
        counts = torch.bincount(row, minlength=width)
        for empty in (counts == 0).nonzero()[:, 0].tolist():
            worst = torch.where(counts[row] > 1, bad, -1.0).argmax()
            counts[row[worst]] -= 1
            row[worst] = empty
            counts[empty] = 1
