"""Groupings that other scores would make."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ...fusion.grouping import Grouping, assigned, level_generator
from ...fusion.results import LevelReport


def regrouped(
    grouping: Callable[..., Grouping],
    gram: Tensor,
    scores: Mapping[str, Tensor],
    report: LevelReport,
    index: int,
    used: str,
    seed: int,
) -> dict[str, Tensor]:
    """Importance -> (m,) groups of the neurons at level `index`, numbered as in the report; those of the run's importance are
    its own.

    Args:
        used: the run's importance.
        seed: the run's.
    """
    groups, own = {}, report.labels
    for name, s in scores.items():
        if name != used:
            draw = level_generator(seed, index)
            found = grouping(gram, s, report.widths, report.width, generator=draw).labels
        groups[name] = own if name == used else renumbered(found.to(own.device), own)
    return groups


def renumbered(labels: Tensor, like: Tensor) -> Tensor:
    """Renumber groups so that as many neurons as possible have their number in `like` (with as many groups)."""
    width = int(max(labels.max(), like.max())) + 1
    shared = torch.bincount(labels * width + like, minlength=width * width).reshape(width, width)
    _, numbers = assigned(shared, maximize=True)
    return numbers.to(labels.device)[labels]
