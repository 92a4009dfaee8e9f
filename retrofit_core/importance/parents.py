"""Scores of all parents, each on its own data."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..levels import Level
from ..monitor import Monitor
from . import Importance, Scores, check_labels, importance_scores


def check_parents_data(importance: Importance, data: Sequence[tuple[Tensor, Tensor | None]], classes: int) -> None:
    """Refuse, before any work, data on which neurons cannot be scored.

    Args:
        data: (inputs, labels) for each parent.
        classes: the parents' number of classes.
    Raises:
        ValueError: missing or strange labels, or labels that the parents have no class for.
    """
    for _, y in data if importance.needs_labels else ():
        labels = check_labels(y, importance)
        if labels is not None and len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
            raise ValueError(
                f"labels run from {int(labels.min())} to {int(labels.max())}; the parents have {classes} classes."
            )


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
        ValueError: as `check_parents_data` and `importance_scores`.
    """
    check_parents_data(importance, data, parents[0][-1].width)
    scores = []
    for index, (levels, (x, y)) in enumerate(zip(parents, data, strict=True)):
        monitor.emit("phase", name="importance", parent=index, parents=len(parents))
        dtype = next(levels[0].module.parameters()).dtype
        labels = y.to(device) if y is not None else None
        scores.append(importance_scores(levels, x.to(device, dtype), labels, importance, monitor=monitor))
    return scores
