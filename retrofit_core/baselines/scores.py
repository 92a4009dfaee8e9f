"""Importance of neuron groups, wherever in a network they are made."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..fusion.importance import IMPORTANCE, Importance, Neurons, Place, Scores, importance_name
from ..fusion.importance.scoring import check_labels, importance_scores, normalised, scores_at
from ..networks.levels import partition, trace
from ..networks.symmetry import Group
from ..system.monitor import Monitor
from ..system.refusals import Refusal
from .watch import Watched


def neurons_of_groups(
    model: nn.Module, groups: Sequence[Group], example: Tensor, importance: Importance, leaves: Sequence[str] = ()
) -> Neurons:
    """A network's levels if each makes the neurons of one group; else the groups' points, and the logits. For a score that
    depends only on widths, the groups themselves.

    Args:
        example: (B, ...) inputs on the model's device.
    Raises:
        ValueError: the score does not cover them; the message names a solution.
    """
    if importance.widths_only:
        return Neurons([Place(group.name, 0, group.width) for group in groups], lambda x: [])
    try:
        levels = partition(model, example, leaves=leaves)
    except ValueError:  # such as tied weights
        levels = []
    makers = [{part.name for part in group.parts if part.kind == "out"} for group in groups]
    if len(levels) == len(groups) and all(
        level.affine is not None and level.width == group.width and names & level.state().keys()
        for names, group, level in zip(makers, groups, levels, strict=True)
    ):
        neurons = Neurons.of(levels)
        importance.check(neurons)
        return neurons
    traced = trace(model.eval(), leaves, example[:1])
    watched, shapes = Watched(traced, groups), {node.name: node.meta.get("value") for node in traced.graph.nodes}
    points = [point for group in groups for point in group.points if point.part == "output"]

    def run(inputs: Tensor) -> list[Tensor]:
        values, outputs = watched.watch(inputs)
        return [*(values[point.node, "output"] for point in points), outputs]

    (logits,) = (node.args[0] for node in traced.graph.nodes if node.op == "output")
    places = [Place(point.node, point.axis, shapes[point.node][point.axis]) for point in points]
    neurons = Neurons([*places, Place("the logits", 1, logits.meta["value"][1])], run)
    importance.check(neurons)
    if len(points) < sum(len(group.points) for group in groups):
        free = [other for other, score in IMPORTANCE.items() if score.widths_only]
        raise Refusal(
            f"importance {importance_name(importance)!r} cannot be computed inside an nn.MultiheadAttention. Use "
            f"importance={' or '.join(map(repr, free))}, or a network with separate layers for queries, keys and "
            "values.",
            *(("importance", other) for other in free),
        )
    return neurons


def group_scores(
    neurons: Neurons,
    groups: Sequence[Group],
    x: Tensor,
    y: Tensor | None,
    importance: Importance,
    *,
    monitor: Monitor | None = None,
) -> Scores:
    """`importance_scores` for neuron groups: one (width,) tensor per group that sums to 1.

    A group that is scored at several points, such as a residual stream, gets the sum over these.

    Args:
        neurons: see `neurons_of_groups`.
    Raises:
        ValueError: as in `importance_scores`.
    """
    monitor = monitor or Monitor()
    if importance.widths_only:
        return Scores([values.to(x.device) for values in scores_at(neurons, x, y, importance, monitor).values])
    if neurons.levels:
        return importance_scores(neurons.levels, x, y, importance, monitor=monitor)
    scores = scores_at(neurons, x, check_labels(y, importance), importance, monitor)
    points, totals = iter(scores.values), []
    for group in groups:
        total = torch.zeros(group.width, dtype=torch.float64, device=x.device)
        for point in group.points:
            total += next(points).to(x.device)[point.index.to(x.device)].sum(1)
        totals.append(total)
    return normalised(Scores(totals, scores.report), importance, [group.name for group in groups], x.device)
