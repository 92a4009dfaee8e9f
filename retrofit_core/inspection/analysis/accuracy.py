"""Where knowledge is lost: the accuracy if the fusion had stopped after each level."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...data import Images
from ...fusion.results import LevelReport
from ...graph.groups import Groups
from ...networks.composites import mean_of_softmax
from ...networks.outputs import are_probabilities, logs
from ...system.monitor import Monitor
from ...training.evaluation import measured
from .stopped import stopped

#: Images per batch: large enough for full-speed convolutions.
BATCH = 200


def accuracy_by_level(
    groups: Groups, reports: Sequence[LevelReport], images: Images, rows: Tensor, monitor: Monitor
) -> list[dict[str, Any]]:
    """`measured` results on some rows: the ensemble, then fusion stopped after level 1, 2, ...; the last is the fused network."""
    said: list[list[Tensor]] = [[] for _ in range(len(reports) + 1)]
    weight = next(iter(groups.fused.weights.values()))
    for batch in monitor.each("step", rows.split(min(BATCH, groups.fused.batch()))):
        with torch.inference_mode():
            x = images.inputs(batch).to(weight.device, weight.dtype)
            for answer, kept in zip(answers_by_level(groups, reports, x), said, strict=True):
                kept.append(answer.cpu())
    return [measured(torch.cat(kept), images.labels[rows], len(images.classes)) for kept in said]


def answers_by_level(groups: Groups, reports: Sequence[LevelReport], x: Tensor) -> list[Tensor]:
    """(n, classes) log-probabilities: of the ensemble, then if the fusion had stopped after level 1, 2, ...

    When stopped after a level, every parent continues with its own remaining levels, reading each neuron from the fused
    neuron that represents it. The parents' softmax outputs are averaged, as in the ensemble.
    """
    alone = [net.graph(net.weights, x)[0] for net in groups.nets[:-1]]
    return [
        mean_of_softmax(torch.stack([logs(own) if are_probabilities(own) else own for own in outputs]))
        for outputs in (alone, *stopped(groups, reports, [x]))
    ]
