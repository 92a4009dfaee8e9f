"""Compute scores: of one network, of all parents on their own data, or at tensors inside a network."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...networks.copies import copies
from ...networks.levels import Level, partition
from ...networks.outputs import check_class_scores
from ...networks.wrappers import unwrapped
from ...system.device import exact
from ...system.labels import check_classes, class_labels
from ...system.monitor import Monitor
from ..eligibility import output_shape
from ..samples import ordinary
from ..task import Task
from . import as_importance, importance_name
from .base import EPSILON, Importance, Neurons, Scores


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


def check_labels(y: Tensor | None, importance: Importance) -> Tensor | None:
    """Labels (B,) as int64, if the score needs them; others are returned as they are.

    Raises:
        ValueError: needed labels are missing, or are not integers.
    """
    name = importance_name(importance)
    if not importance.needs_labels:
        return y
    if y is None:
        raise ValueError(
            f"importance {name!r} needs labels. Pass one (inputs, labels) per parent as importance data, or use "
            "importance='uniform'."
        )
    return class_labels(y, f"importance {name!r}")


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
        scores.append(importance_scores(levels, x, labels, importance, monitor=monitor))
    return scores


@exact()
def importance_scores(
    model: nn.Module | Sequence[Level],
    x: Tensor,
    y: Tensor | None,
    importance: str | Importance | Callable[..., Any] = "conductance",
    *,
    monitor: Monitor | None = None,
    **options: object,
) -> Scores:
    """Scores of one parent's neurons at every level, + 1e-8, normalised to sum 1 per level; on the device of the inputs.

    Args:
        model: a module, or its levels.
        x: (B, ...) inputs on the model's device.
        y: (B,) labels; attributions explain the logit of the true class.
        importance: a value, a name in IMPORTANCE, or a function `(neurons, x, y)`.
        options: fields of a named score; `normalise_scores=False` keeps raw scores (parents with larger logits then
            weigh more).
    Raises:
        ValueError: unknown name, missing labels, or scores that are negative, not finite or of the wrong shape.
    """
    value = as_importance(importance, **options)
    x, y = ordinary(x), None if y is None else ordinary(y)
    if isinstance(model, nn.Module):
        (copied,) = copies({"the network": unwrapped(model)}).values()
        model = partition(copied, x[:2])
    neurons = Neurons.of(list(model))
    value.check(neurons)
    y = check_labels(y, value)
    if y is not None and value.needs_labels and value.reads_logits:
        check_classes(y, neurons.places[-1].width, f"importance {importance_name(value)!r}", "the network")
    names = [place.name for place in neurons]
    return normalised(scores_at(neurons, x, y, value, monitor or Monitor()), value, names, x.device)


def scores_at(neurons: Neurons, x: Tensor, y: Tensor | None, importance: Importance, monitor: Monitor) -> Scores:
    """Raw scores, one (width,) tensor per place.

    Raises:
        ValueError: wrong number of tensors or neurons.
    """
    with torch.enable_grad():
        returned = importance.scores(neurons, x, y, monitor=monitor)
    scores = returned if isinstance(returned, Scores) else Scores([torch.as_tensor(values) for values in returned])
    name = importance_name(importance)
    if len(scores.values) != len(neurons.places):
        raise ValueError(f"importance {name!r} returned {len(scores.values)} tensors for {len(neurons.places)} levels.")
    for values, place in zip(scores.values, neurons, strict=True):
        if values.shape != (place.width,):
            raise ValueError(
                f"importance {name!r} returned shape {tuple(values.shape)} for level {place.name!r}; it has {place.width} "
                "neurons."
            )
    return scores


def normalised(scores: Scores, importance: Importance, names: Sequence[str], device: torch.device) -> Scores:
    """Scores as float64, + 1e-8, normalised if the importance says so.

    Args:
        names: of each level or neuron group, for the message.
    Raises:
        ValueError: negative or non-finite scores.
    """
    sizes = [len(value) for value in scores.values]
    values = torch.cat([value.detach() for value in scores.values]).to(device, torch.float64).split(sizes)
    usable = torch.stack([(torch.isfinite(value) & (value >= 0)).all() for value in values]).tolist()  # one sync
    if not all(usable):
        raise ValueError(
            f"importance {importance_name(importance)!r} returned negative or non-finite scores for level "
            f"{names[usable.index(False)]!r}."
        )
    values = [value + EPSILON for value in values]
    return Scores([value / value.sum() for value in values] if importance.normalise_scores else values, scores.report)
