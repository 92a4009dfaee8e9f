"""Groupings that other scores and seeds would make, and their agreement."""

from collections.abc import Callable, Mapping
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import torch
from torch import Tensor

from ...fusion.grouping import Grouping, assigned, level_generator
from ...fusion.results import LevelReport

#: Seeds per score: ten pairs of seeds for the noise floor.
SEEDS = 5


def regrouped(
    grouping: Callable[..., Grouping],
    gram: Tensor,
    scores: Mapping[str, Tensor],
    report: LevelReport,
    index: int,
    used: str,
    seed: int,
) -> dict[str, Tensor]:
    """Importance -> (seeds, m) groups of the neurons at level `index`, numbered as in the report; the first row of the run's
    importance is the run's own grouping.

    Args:
        used: the run's importance.
        seed: the run's.
    """
    groups, own = {}, report.labels
    seeds = [seed + k for k in range(SEEDS if getattr(grouping, "is_random", False) else 1)]
    for name, s in scores.items():
        rows = [own] if name == used else []
        for other in seeds[len(rows) :]:
            found = grouping(gram, s, report.widths, report.width, generator=level_generator(other, index)).labels
            rows.append(renumbered(found.to(own.device), own))
        groups[name] = torch.stack(rows)
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
