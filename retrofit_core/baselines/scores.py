"""Importance of neuron groups, wherever in a network they are made."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx

from ..fusion.alignment import Group, Point
from ..fusion.importance import Importance, Scores
from ..fusion.importance.scoring import parents_scores
from ..graph.blocks import Block
from ..graph.network import Network
from ..system.monitor import Monitor


def group_scores(
    nets: Sequence[Network],
    groups: Sequence[Sequence[Group]],
    importance: Importance,
    data: Sequence[tuple[Any, Tensor | None]],
    monitor: Monitor,
) -> list[Scores]:
    """Scores of each network's neurons: (width,) float64 for each group, which sum to 1 if the score is normalised.

    A group that is recorded at several points, such as a residual stream, gets the sum over these.

    Args:
        data: (inputs, labels) for each network.
    Raises:
        ValueError: see `parents_scores`.
    """
    points, recorded = list[dict[fx.Node, Point]](), list[Network]()
    for net, of_net in zip(nets, groups, strict=True):
        unordered = {point.node: point for group in of_net for point in group.points}
        points.append({node: unordered[node] for node in sorted(unordered, key=net.graph.place.__getitem__)})
        facts = {"trained": [], "size": 0}
        blocks = [
            Block([], node, start=node, label=str(node), axis=point.axis, **facts) for node, point in points[-1].items()
        ]
        recorded.append(replace(net, layers=blocks))
    found, raw = [], parents_scores(recorded, replace(importance, normalise_scores=False), data, monitor)
    for scores, of_net, of_groups in zip(raw, points, groups, strict=True):
        values, device = dict(zip(of_net, scores.values, strict=False)), scores.values[0].device
        totals = [
            torch.stack([values[point.node][point.index.to(device)].sum(1) for point in group.points]).sum(0)
            for group in of_groups
        ]
        sums = [total / total.sum() for total in totals] if importance.normalise_scores else totals
        found.append(Scores(sums, scores.report))
    return found
