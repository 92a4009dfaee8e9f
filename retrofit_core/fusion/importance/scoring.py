"""Compute scores: of one network, or of all parents on their own data."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...graph.graph import beside
from ...graph.network import Network, networks_of
from ...networks.copies import copies
from ...networks.inputs import each_of
from ...networks.outputs import check_class_scores
from ...networks.wrappers import unwrapped
from ...system.device import exact
from ...system.labels import check_classes, class_labels
from ...system.monitor import Monitor
from ...system.refusals import Refusal
from ..samples import ordinary
from . import as_importance, importance_name
from .base import EPSILON, Importance, Neurons, Scores


def check_scores(nets: Sequence[Network], importance: Importance, data: Sequence[tuple[Any, Tensor | None]]) -> None:
    """Check before any work that neurons can be scored on these data.

    Args:
        data: (inputs, labels) of each network.
    Raises:
        ValueError: missing or invalid labels, labels that are no class, outputs without classes, or a score that does not cover
            the neurons.
    """
    name = f"importance {importance_name(importance)!r}"
    for net, (_, y) in zip(nets, data, strict=True):
        outputs = net.spaces.neurons.shape(net.graph.output)[1:]
        labels = check_labels(y, importance)
        if importance.needs_labels and len(net.graph.outputs) > 1:
            raise Refusal(
                f"{name} explains one output, and several are fused. Use importance='uniform'.",
                ("importance", "uniform"),
            )
        if importance.needs_labels and importance.reads_logits:
            check_class_scores(outputs, name, "Use importance='uniform'.", ("importance", "uniform"))
        if importance.needs_labels and labels is not None and len(outputs) == 1:
            check_classes(labels, outputs[0], name)
        importance.check(Neurons.of(net))


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
    nets: Sequence[Network], importance: Importance, data: Sequence[tuple[Any, Tensor | None]], monitor: Monitor
) -> list[Scores]:
    """Scores of each network's neurons at each layer, + 1e-8, normalised if the importance says so.

    Args:
        data: (inputs, labels) of each.
    Raises:
        ValueError: missing labels, or scores that are negative, not finite or of the wrong shape.
    """
    found = []
    for number, (net, (x, y)) in enumerate(zip(nets, data, strict=True)):
        monitor.emit("phase", name="importance", parent=number, parents=len(nets))
        device = next(iter(net.weights.values())).device
        x = beside(x, net.weights) if importance.needs_data else x
        y = check_labels(None if y is None else y.to(device), importance)
        found.append(_scores_of(Neurons.of(net), x, y, importance, monitor, device))
    return found


@exact()
def importance_scores(
    model: nn.Module,
    x: Any,
    y: Tensor | None,
    importance: str | Importance | Callable[..., Any] = "conductance",
    *,
    monitor: Monitor | None = None,
    **options: object,
) -> Scores:
    """Scores of one network's neurons at every layer, + 1e-8, normalised to sum 1 per layer; on the network's device.

    Args:
        x: what it is called with, (B, ...) each.
        y: (B,) labels; attributions explain the logit of the true class.
        importance: a value, a name in IMPORTANCE, or a function `(neurons, x, y)`.
        options: fields of a named score; `normalise_scores=False` keeps raw scores (parents with larger logits then
            weigh more).
    Raises:
        ValueError: unknown name, missing labels, or scores that are negative, not finite or of the wrong shape.
    """
    value, y = as_importance(importance, **options), None if y is None else ordinary(y)
    (copied,) = copies({"the network": unwrapped(model)}).values()
    x = each_of(x, ordinary)
    nets = networks_of([copied.eval()], x)
    check_scores(nets, value, [(x, y)])
    (found,) = parents_scores(nets, value, [(x, y)], monitor or Monitor())
    return found


def _scores_of(
    neurons: Neurons, x: Any, y: Tensor | None, importance: Importance, monitor: Monitor, device: torch.device
) -> Scores:
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
    sizes = [len(value) for value in scores.values]
    values = torch.cat([value.detach() for value in scores.values]).to(device, torch.float64).split(sizes)
    usable = torch.stack([(torch.isfinite(value) & (value >= 0)).all() for value in values]).tolist()  # one sync
    if not all(usable):
        raise ValueError(
            f"importance {importance_name(importance)!r} returned negative or non-finite scores for level "
            f"{neurons.places[usable.index(False)].name!r}."
        )
    values = [value + EPSILON for value in values]
    return Scores([value / value.sum() for value in values] if importance.normalise_scores else values, scores.report)
