"""Scores of all parents, each on its own data."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..levels import Level
from ..monitor import Monitor
from . import Importance, Scores, importance_scores


def parents_scores(
    parents: Sequence[Sequence[Level]],
    importance: Importance,
    data: Sequence[tuple[Tensor, Tensor | None]],
    device: torch.device,
    monitor: Monitor,
) -> list[Scores]:
    """The scores of each parent's neurons, level by level.

    Args:
        parents: the levels of each parent, on the device.
        data: (inputs, labels) for each parent.
    Raises:
        ValueError: labels that the parents have no class for, or as `importance_scores`.
    """
    scores = []
    for index, (levels, (x, y)) in enumerate(zip(parents, data, strict=True)):
        check_classes(y, levels[-1].width)
        monitor.emit("phase", name="importance", parent=index, parents=len(parents))
        dtype = next(levels[0].module.parameters()).dtype
        labels = y.to(device) if y is not None else None
        scores.append(importance_scores(levels, x.to(device, dtype), labels, importance, monitor=monitor))
    return scores


def check_classes(y: Tensor | None, classes: int) -> None:
    """Refuse labels that a network has no class for.

    Raises:
        ValueError: says which labels there are.
    """
    if y is not None and len(y) and not 0 <= int(y.min()) <= int(y.max()) < classes:
        raise ValueError(f"labels run from {int(y.min())} to {int(y.max())}; the parents have {classes} classes.")
