"""What a grouping is, and the costs that all of them minimise."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ..targets import Targets, weighted_means


@dataclass(frozen=True, eq=False)
class Grouping:
    """Group numbers of the parents' neurons."""

    labels: Tensor
    """(m,) int64: neuron j belongs to group labels[j], 0 <= labels[j] < width"""
    width: int
    """d, the number of groups; none is empty"""
    cost: float
    """The minimised cost, sum_j s_j |phi_j - centroid|^2"""
    report: dict[str, Any] = field(default_factory=dict)
    """What the algorithm tells about itself (restarts, iterations, swaps)"""

    def targets(self, scores: Tensor) -> Targets:
        """The importance-weighted means of the groups."""
        return weighted_means(self.labels, scores, self.width)

    def averaging(self, scores: Tensor) -> Tensor:
        """A (m, d): column k holds s_j / S_k over group k, so that the targets are T = Z A. Columns sum to one."""
        return averaging_matrix(self.labels, scores, self.width)


def averaging_matrix(labels: Tensor, scores: Tensor, width: int) -> Tensor:
    """A (m, d) of the importance-weighted means of the groups."""
    return weighted_means(labels, scores, width).A


def squared_distances(gram: Tensor) -> Tensor:
    """(m, m) |phi_i - phi_j|^2 from inner products, clamped at 0."""
    norms = gram.diagonal()
    return (norms[:, None] + norms[None] - 2 * gram).clamp_min_(0)


def pairwise_costs(gram: Tensor, scores: Tensor, first: int) -> Tensor:
    """(first, m - first): the exact cost of joining neuron i of the first parent with neuron j of the others.

    s_i s_j / (s_i + s_j) |phi_i - phi_j|^2 (docs/method.md); it is what the refitted level would pay, at any ridge.
    """
    s, t = scores[:first, None], scores[None, first:]
    norms = gram.diagonal()
    distances = (norms[:first, None] + norms[None, first:] - 2 * gram[:first, first:]).clamp_min_(0)
    return s * t / (s + t).clamp_min(1e-300) * distances
