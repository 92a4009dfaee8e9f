"""Scores of all parents, each on its own data."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from ...networks.levels import Level
from ...networks.outputs import check_class_scores
from ...system.labels import check_classes
from ...system.monitor import Monitor
from ..eligibility import output_shape
from ..task import Task
from . import Importance, Scores, check_labels, importance_name, importance_scores
from .shared import shared


def check_parents_data(task: Task) -> None:
    """Check before any work that neurons can be scored on a task's data.

    Raises:
        ValueError: missing or invalid labels, labels that are no class of the parents, or outputs without classes.
    """
    importance = task.importance
    if not importance.needs_labels:
        return
    outputs = output_shape(task.parents[0], task.inputs, "parent 0")
    name = f"importance {importance_name(importance)!r}"
    if importance.reads_logits:
        check_class_scores(outputs, name, "Use importance='uniform'.", ("importance", "uniform"))
    for _, y in task.parents_data():
        labels = check_labels(y, importance)
        if labels is not None and len(outputs) == 1:
            check_classes(labels, outputs[0], name)


def parents_scores(
    parents: Sequence[Sequence[Level]],
    importance: Importance,
    data: Sequence[tuple[Tensor, Tensor | None]],
    device: torch.device,
    monitor: Monitor,
) -> list[Scores]:
    """Scores of each parent's neurons at each level.

    Args:
        parents: the levels of each parent, on the device.
        data: (inputs, labels) for each parent.
    Raises:
        ValueError: as in `importance_scores`.
    """
    scores = []
    for index, (levels, (x, y)) in enumerate(zip(parents, data, strict=True)):
        monitor.emit("phase", name="importance", parent=index, parents=len(parents))
        dtype = next(levels[0].module.parameters()).dtype
        labels = y.to(device) if y is not None else None
        x = (x[:1] if importance.widths_only else x).to(device, dtype)  # there may be many samples
        compute = partial(importance_scores, levels, x, labels, importance, monitor=monitor)
        scores.append(shared(compute, levels, x, labels, importance))
    return scores
