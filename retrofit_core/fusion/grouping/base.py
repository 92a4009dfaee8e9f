"""What a grouping is, the base class of all algorithms, and how they are called: checked, and with groups in a fixed order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...system.refusals import Refusal
from ...system.settings import Value
from ..targets import Targets, group_counts, group_sums, weighted_means
from .assignment import assigned

#: Neurons per parent.
Widths = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Grouping:
    """Group numbers of the parents' neurons."""

    labels: Tensor
    """(m,) int64: neuron j belongs to group labels[j], 0 <= labels[j] < width"""
    width: int
    """d, the number of groups; none is empty"""
    cost: float
    """The minimised cost, sum_j s_j |phi_j - centroid|^2; NaN if earlier levels determine the groups"""
    report: dict[str, Any] = field(default_factory=dict)
    """Facts about the search (restarts, iterations, swaps)"""
    weights: Tensor | None = None
    """(m, d) weight of each neuron in each group's target, if targets are not the groups' means"""
    reading: Tensor | None = None
    """(d, m) weights of the targets that then represent each neuron"""

    def targets(self, scores: Tensor) -> Targets:
        """The groups' importance-weighted means, or `weights`, as weights A (m, d)."""
        means = weighted_means(self.labels, scores, self.width)
        return means if self.weights is None else Targets(self.weights, means.totals)


@dataclass(frozen=True)
class Grouper(Value):
    """Base class of grouping algorithms. A new one needs `__call__` and one line in GROUPINGS; its fields are its options."""

    parents: ClassVar[tuple[int, int | None]] = (1, None)
    """Minimum and maximum number of parents; None: any"""
    equal_widths: ClassVar[bool] = False
    """Whether all parents must have the fused width"""
    is_random: ClassVar[bool] = False
    """Whether the grouping depends on the seed"""

    def check(self, widths: Widths, width: int) -> None:
        """Check before any work that these widths can be grouped.

        Raises:
            ValueError: the reason and a solution, without the level's name.
        """

    def __call__(
        self, gram: Tensor, scores: Tensor, widths: Widths, width: int, *, generator: torch.Generator | None = None
    ) -> Grouping:
        """Group m neurons. The caller checks the result and renumbers its groups; the class head is not grouped.

        Args:
            gram: (m, m) float64 inner products of the neurons.
            scores: (m,) float64 weights, not negative, on the same device.
            widths: number of neurons of each parent, summing to m.
            width: d, the number of groups.
            generator: source of randomness, on the CPU.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no __call__(self, gram, scores, widths, width, *, generator=None)."
        )


def check_enough(where: str, widths: Sequence[int], width: int) -> None:
    """Refuse a level, or a grouping, of which some fused neurons would represent nothing."""
    if width > sum(widths):
        raise Refusal(
            f"{where}: {width} fused neurons for {sum(widths)} parents' neurons; some would represent nothing. Use a target of "
            f"at most {sum(widths)} there.",
            ("target", None),
        )


def check_grouping(grouping: Grouping, m: int, width: int) -> Grouping:
    """Check the result of a grouping.

    Raises:
        ValueError: labels of another shape, type or range, another number of groups, or an empty group.
    """
    labels = grouping.labels if isinstance(grouping, Grouping) else None
    if (
        not isinstance(labels, Tensor)
        or labels.shape != (m,)
        or labels.dtype.is_floating_point
        or grouping.width != width
    ):
        raise ValueError(
            f"the grouping must return Grouping(labels, width={width}, cost) with {m} whole-number labels, a tensor."
        )
    numbers = labels.long().clamp(0, width - 1)  # an index out of range would crash a GPU
    counts = group_counts(numbers, width)
    if not ((numbers == labels).all() and (counts > 0).all()):
        least, most, empty = int(labels.min()), int(labels.max()), int((counts == 0).sum())
        if not 0 <= least <= most < width:
            raise ValueError(f"the grouping's labels run from {least} to {most}; use 0 to {width - 1}.")
        raise ValueError(
            f"{empty} of the grouping's {width} groups are empty; each fused neuron must represent at least one neuron."
        )
    return Grouping(numbers, width, grouping.cost, grouping.report)


def grouped_cost(gram: Tensor, scores: Tensor, labels: Tensor, width: int) -> float:
    """sum_j s_j |phi_j - centroid of its group|^2, the cost of a grouping, from the Gram matrix."""
    A = weighted_means(labels, scores, width).A
    totals = group_sums(scores, labels, width)
    return (scores @ gram.diagonal() - totals @ ((gram @ A) * A).sum(0)).clamp_min(0).item()


def squared_distances(gram: Tensor) -> Tensor:
    """(m, m) |phi_i - phi_j|^2 from inner products, clamped at 0."""
    norms = gram.diagonal()
    return (norms[:, None] + norms[None] - 2 * gram).clamp_min_(0)


def pairwise_costs(gram: Tensor, scores: Tensor, first: int) -> Tensor:
    """(first, m - first): the exact cost of joining neuron i of the first parent with neuron j of the others.

    s_i s_j / (s_i + s_j) |phi_i - phi_j|^2 (docs/method.md): the increase of the grouping error, at any ridge.
    """
    s, t = scores[:first, None], scores[None, first:]
    norms = gram.diagonal()
    distances = (norms[:first, None] + norms[None, first:] - 2 * gram[:first, first:]).clamp_min_(0)
    return s * t / (s + t).clamp_min(1e-300) * distances


def level_generator(seed: int, index: int) -> torch.Generator:
    """Random generator of one level, whose numbers do not depend on what other levels draw."""
    return torch.Generator().manual_seed((seed * 1_000_003 + index) % 2**63)


def grouped(
    grouping: Callable[..., Grouping],
    gram: Tensor,
    scores: Tensor,
    widths: tuple[int, ...],
    width: int,
    generator: torch.Generator,
    *,
    nearness: Tensor | None = None,
) -> Grouping:
    """Group the parents' neurons, check the result, and number the groups like parent 0's neurons.

    Args:
        widths: number of neurons of each parent.
        width: number of groups.
        nearness: (m, m) inner products for numbering the groups; default: `gram`.
    Raises:
        ValueError: see `check_grouping`.
    """
    groups = check_grouping(grouping(gram, scores, widths, width, generator=generator), len(scores), width)
    groups = replace(groups, labels=groups.labels.to(gram.device))  # a user's own may lie on the CPU
    nearness = gram if nearness is None else nearness
    return ordered_like(groups, nearness, scores, torch.arange(widths[0], device=gram.device))


def ordered_like(grouping: Grouping, gram: Tensor, scores: Tensor, reference: Tensor) -> Grouping:
    """The same groups, numbered so that group k's centroid is as near as possible to neuron reference[k].

    Args:
        gram: (m, m) inner products that define the distances.
        reference: (r,) neuron numbers; r may differ from the number of groups, the rest of which keeps its order.
    """
    A = grouping.targets(scores).A
    energy = ((A.T @ gram) * A.T).sum(1)
    energies = gram.diagonal()[reference]
    groups, slots = assigned(energy[:, None] - 2 * A.T @ gram[:, reference] + energies)
    new = len(reference) + torch.arange(grouping.width)  # the rest follows
    new[groups] = slots
    new = new.argsort().argsort().to(grouping.labels.device)  # without gaps
    return Grouping(new[grouping.labels], grouping.width, grouping.cost, grouping.report)
