"""Importance of neuron groups, wherever in a network they are made."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from ..fusion.importance import (
    IMPORTANCE,
    Importance,
    Scores,
    check_anywhere,
    check_labels,
    checked_scores,
    importance_name,
    importance_scores,
    scores_inside,
)
from ..fusion.importance.shared import shared
from ..networks.levels import Level, partition, trace
from ..networks.symmetry import Group, Watched
from ..system.monitor import Monitor
from ..system.refusals import Refusal


def group_scores(
    model: nn.Module,
    groups: Sequence[Group],
    x: Tensor,
    y: Tensor | None,
    importance: Importance,
    *,
    monitor: Monitor | None = None,
    leaves: Sequence[str] = (),
) -> Scores:
    """`importance_scores` for neuron groups: one (width,) tensor per group that sums to 1.

    If every group is a level of the network, these are the levels' scores. Neurons inside a residual block or an
    attention, where no level ends, are scored at their points; a residual stream gets the sum over its points.

    Raises:
        ValueError: as in `importance_scores`, or the score supports only levels.
    """
    monitor = monitor or Monitor()
    if importance.widths_only:
        widths: Sequence[Level] = groups  # type: ignore[assignment]  # it reads only widths
        scores = importance.scores(widths, x, y, monitor=monitor)
        values = scores.values if isinstance(scores, Scores) else list(scores)
        return Scores([value.to(x.device) for value in values])
    levels = levels_of_groups(model, groups, x[:2], importance, leaves)
    if levels is not None:
        return shared(partial(importance_scores, levels, x, y, importance, monitor=monitor), levels, x, y, importance)
    y = check_labels(y, importance)
    assert y is not None
    watched = Watched(trace(model.eval(), leaves, x[:1]), groups)
    points = [(group, point) for group in groups for point in group.points]

    def run(inputs: Tensor, *, with_gradients: bool) -> list[Tensor]:
        with torch.set_grad_enabled(with_gradients):
            values, outputs = watched.watch(inputs.detach().requires_grad_(with_gradients))
        return [*(values[point.node, "output"] for _, point in points), outputs]

    with torch.enable_grad():
        scores = scores_inside(importance, run, [*(point.axis for _, point in points), 1], x, y, monitor)
    totals = {group.name: torch.zeros(group.width, dtype=torch.float64, device=x.device) for group in groups}
    for (group, point), values in zip(points, scores.values[:-1], strict=True):
        totals[group.name] += values[point.index.to(x.device)].sum(1)
    names = [(group.name, group.width) for group in groups]
    return checked_scores(Scores(list(totals.values()), scores.report), importance, names, x.device)


def levels_of_groups(
    model: nn.Module, groups: Sequence[Group], example: Tensor, importance: Importance, leaves: Sequence[str]
) -> list[Level] | None:
    """The levels of a network if each makes the neurons of one group, else None.

    Args:
        example: (B, ...) inputs on the model's device.
    Raises:
        ValueError: otherwise, if the score is not defined at other neurons.
    """
    try:
        levels = partition(model, example, leaves=leaves)
    except ValueError:  # such as tied weights
        levels = []
    makers = [{part.name for part in group.parts if part.kind == "out"} for group in groups]
    if len(levels) == len(groups) and all(
        level.affine is not None and level.width == group.width and names & level.state().keys()
        for names, group, level in zip(makers, groups, levels, strict=True)
    ):
        return levels
    name = importance_name(importance)
    check_anywhere(importance)
    if any(point.part != "output" for group in groups for point in group.points):
        free = [other for other, score in IMPORTANCE.items() if score.widths_only]
        raise Refusal(
            f"importance {name!r} cannot be computed inside an nn.MultiheadAttention. Use "
            f"importance={' or '.join(map(repr, free))}, or a network with separate layers for queries, keys and "
            "values.",
            *(("importance", other) for other in free),
        )
    return None
