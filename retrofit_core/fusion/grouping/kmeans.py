"""Weighted k-means on neurons, from their Gram matrix alone (paper App. B.1; Arthur and Vassilvitskii 2007).

The points are the columns of phi, which are never needed, because distances to centroids follow from G. Memberships are
one-hot, so a Lloyd step sums rows of G over groups, in O(m^2) per restart, without a matrix product.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ...system.graphs import replayed
from ...system.settings import COUNT, setting
from ..targets import adds_in_order, group_counts, group_sums, shares
from .base import Grouper, Grouping, Widths, check_enough, squared_distances

ITERATIONS = 300


@dataclass(frozen=True)
class KMeans(Grouper):
    """Weighted k-means: groups similar neurons, whichever parents they come from.

    Greedy k-means++ with restarts, Lloyd to convergence; the lowest cost wins. Equivalent to scikit-learn's
    KMeans(init="k-means++", n_init=restarts) with sample weights on points of this Gram matrix.
    """

    is_random: ClassVar[bool] = True

    restarts: int = setting(
        10,
        "restarts of k-means (greedy k-means++), beside a start from parent 0's neurons if it has enough of them; the one "
        "with the lowest cost wins",
        COUNT,
        title="Starts of k-means",
    )

    def check(self, widths: Widths, width: int) -> None:
        """Check that there are enough neurons, and a start."""
        check_enough("kmeans", widths, width)
        if not self.restarts and widths[0] < width:
            raise ValueError("kmeans needs restarts >= 1 where parent 0 has fewer neurons than the fused level.")

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
        if widths[0] >= width:
            starts.append(torch.arange(width, device=gram.device)[None])
        labels, costs, iterations = lloyd(gram, scores, torch.cat(starts), distances)
        best = costs.index(min(costs))
        report = {
            "algorithm": "kmeans",
            "restarts": len(costs),
            "best_start": best,
            "iterations": iterations,
            "costs": costs,
        }
        return Grouping(labels[best], width, costs[best], report)


def seed_centres(
    distances: Tensor, scores: Tensor, width: int, restarts: int, generator: torch.Generator | None
) -> Tensor:
    """(restarts, width) neurons chosen by greedy k-means++: the best of 2 + log k draws at each step, as in scikit-learn.

    A draw picks neuron j with probability proportional to s_j times its squared distance to the nearest centre.
    """
    trials, device = 2 + int(math.log(width)), distances.device
    draws = torch.rand(width, restarts, trials, generator=generator, dtype=distances.dtype).to(device)
    weights = torch.where(scores.sum() > 0, scores, 1.0)
    centres = torch.empty(restarts, width, dtype=torch.long, device=device)
    number, rows = torch.zeros(1, dtype=torch.long, device=device), torch.arange(restarts, device=device)

    def drawn(nearest: Tensor) -> Tensor:
        """(restarts, trials) neurons, drawn for the next centre."""
        potential = (nearest * weights).cumsum(1)  # (restarts, m)
        levels = draws.index_select(0, number)[0] * potential[:, -1:]
        return torch.searchsorted(potential, levels, right=True).clamp_max_(len(scores) - 1)

    centres[:, 0] = drawn(distances.new_ones(restarts, len(scores)))[:, 0]  # the first centre is a single draw
    nearest = distances[centres[:, 0]]

    def choose() -> None:
        """Add the best of the next draws to the centres."""
        number.add_(1)
        candidates = drawn(nearest)
        reached = distances.index_select(0, candidates.flatten()).view(*candidates.shape, -1)  # (restarts, trials, m)
        torch.minimum(reached, nearest[:, None], out=reached)
        chosen = (reached @ weights).argmin(1)
        centres.index_copy_(1, number, candidates[rows, chosen][:, None])
        nearest.copy_(reached[rows, chosen])

    choose = replayed(choose, device)
    for _ in range(width - 1):
        choose()
    return centres


def lloyd(
    gram: Tensor, scores: Tensor, centres: Tensor, distances: Tensor, iterations: int = ITERATIONS
) -> tuple[Tensor, list[float], int]:
    """Weighted Lloyd iterations of all restarts.

    The cost never increases; a group that becomes empty gets the worst neuron (largest score times distance).

    Args:
        centres: (restarts, d) neurons used as initial centres.
    Returns:
        Labels (restarts, m), the cost of each restart, and the maximum number of iterations.
    """
    starts, width = _start_labels(distances, centres), centres.shape[1]
    # A CPU saves work where few neurons move, restart by restart; a GPU computes all restarts in one product.
    together = 1 if adds_in_order(gram) else len(starts)
    runs = [_descend(gram, scores, labels, width, iterations) for labels in starts.split(together)]
    labels, costs, steps = zip(*runs, strict=True)
    return torch.cat(labels), torch.cat(costs).tolist(), max(steps)


def _descend(gram: Tensor, scores: Tensor, labels: Tensor, width: int, iterations: int) -> tuple[Tensor, Tensor, int]:
    """Lloyd iterations of some restarts, labels (restarts, m), each until it has converged."""
    costs, active = gram.new_full((len(labels),), math.inf), torch.arange(len(labels), device=labels.device)
    centroids, step = Centroids(gram, scores, width) if adds_in_order(gram) else None, 0
    while len(active) and step < iterations:
        step += 1
        if centroids is not None:
            centroids.move_to(labels[0])
            moved, to_own = centroids.nearest[None].clone(), centroids.to_own[None]
        else:
            distances, to_own = distances_to_centroids(gram, scores, labels[active], width)
            moved = distances.argmin(1)
        cost = to_own @ scores
        falling = cost < costs[active]  # rounding can make a converged restart swap twins forever
        costs[active] = torch.minimum(costs[active], cost)
        _refill_empty_groups(moved, to_own * scores, width)
        going = falling & (moved != labels[active]).any(1)
        active, moved = active[going], moved[going]
        labels[active] = moved
    return labels, costs, step


def _start_labels(distances: Tensor, centres: Tensor) -> Tensor:
    """(restarts, m) nearest centre; a centre belongs to its own group even if another is equal, so no group starts empty."""
    if adds_in_order(distances):
        labels = torch.stack([distances[centre].min(0).indices for centre in centres])
    else:
        labels = distances[centres].min(1).indices
    numbers = torch.arange(centres.shape[1], device=centres.device).expand_as(centres)
    labels.scatter_(1, centres, numbers)
    # A centre may have been drawn twice.
    _refill_empty_groups(labels, torch.ones_like(labels, dtype=distances.dtype), centres.shape[1])
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
    """Incremental `distances_to_centroids` for one grouping.

    After the first Lloyd steps, about twenty of a thousand neurons move. Only the distances to centroids of groups that lost
    or gained a neuron are recomputed, in the same order of additions, so that they equal those of a full computation.
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
        """Update to the grouping `labels` (m,)."""
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
        """Set distances (groups, m) to changed centroids; search all centroids only for neurons that lost theirs."""
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
    """Move the worst neurons into empty groups, in place; labels, badness (restarts, m).

    The best neuron of each group stays, so that no group becomes empty.
    """
    counts = group_counts(labels, width)
    if counts.all():
        return
    for row, bad, sizes in zip(labels, badness, counts, strict=True):
        for group in (sizes == 0).nonzero()[:, 0]:
            worst = bad.where(sizes[row] > 1, -math.inf).argmax()
            sizes[row[worst]] -= 1
            row[worst], sizes[group] = group, 1
