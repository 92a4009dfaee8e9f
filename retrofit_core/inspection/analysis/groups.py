"""Groupings that other scores and seeds would make, and their agreement."""

from collections.abc import Callable, Sequence
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import torch
from torch import Tensor

from ...fusion.grouping import Grouping, assigned, level_generator


def regrouped(
    grouping: Callable[..., Grouping],
    gram: Tensor,
    scores: Tensor,
    widths: tuple[int, ...],
    index: int,
    seeds: Sequence[int],
    like: Tensor,
) -> Tensor:
    """(seeds, m) groups of the neurons at level `index`, one row per seed.

    Args:
        like: (m,) groups that determine the numbering (`renumbered`).
    """
    width, groups = int(like.max()) + 1, like.new_empty(len(seeds), len(like))  # no group is empty
    for row, seed in zip(groups, seeds, strict=True):
        labels = grouping(gram, scores, widths, width, generator=level_generator(seed, index)).labels
        row.copy_(renumbered(labels.to(like.device), like))
    return groups


def renumbered(labels: Tensor, like: Tensor) -> Tensor:
    """Renumber groups so that as many neurons as possible have their number in `like` (with as many groups)."""
    width = int(max(labels.max(), like.max())) + 1
    shared = torch.bincount(labels * width + like, minlength=width * width).reshape(width, width)
    _, numbers = assigned(shared, maximize=True)
    return numbers.to(labels.device)[labels]


def agreement(labels: dict[str, Tensor]) -> list[dict[str, Any]]:
    """Adjusted Rand index of every two scores over all pairs of seeds, and of every score with itself.

    With only one seed (a deterministic grouping), a score agrees with itself: 1.
    """
    rows = []
    for first, second in combinations_with_replacement(labels, 2):
        left, right = labels[first], labels[second]
        pairs = combinations(left, 2) if first == second else product(left, right)
        indices = [adjusted_rand(a, b) for a, b in pairs] or [1.0]
        rows.append(
            {
                "first": first,
                "second": second,
                "mean": sum(indices) / len(indices),
                "least": min(indices),
                "most": max(indices),
            }
        )
    return rows


def adjusted_rand(left: Tensor, right: Tensor) -> float:
    """Adjusted Rand index of two label vectors (m,): 1 for equal groupings, 0 on average for independent ones."""
    from sklearn.metrics import adjusted_rand_score  # importing it takes two seconds

    return float(adjusted_rand_score(left.cpu().numpy(), right.cpu().numpy()))
