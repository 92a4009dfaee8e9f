"""Where knowledge is lost: the accuracy if the fusion had stopped after each level."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...data import Images
from ...fusion.fit.heads import read_back
from ...fusion.joint_spaces import Levels
from ...fusion.results import LevelReport
from ...networks.composites import mean_of_softmax
from ...networks.levels import Boundary, Level, compose
from ...system.device import on_device, rows_per_batch
from ...system.monitor import Monitor
from ...training.evaluation import ensemble, evaluate, measured

#: Images per batch: large enough for full-speed convolutions.
BATCH = 200


def accuracy_by_level(
    models: Sequence[nn.Module],
    fused: nn.Module,
    plan: Levels,
    reports: Sequence[LevelReport],
    images: Images,
    rows: Tensor,
    monitor: Monitor,
) -> list[dict[str, Any]]:
    """`evaluate` results on some rows: the ensemble, then fusion stopped after level 1, 2, ..., then the fused network.

    When stopped after a level, every parent continues with its own remaining levels, reading each neuron from the fused
    neuron that represents it. The parents' softmax outputs are averaged, as in the ensemble. Before the first level this
    is the ensemble, and after the last the fused network.
    """
    device = next(plan.model.parameters()).device
    representatives = {index: readings(report, device) for index, report in enumerate(reports)}
    outputs: list[list[Tensor]] = [[] for _ in plan.fused[:-1]]
    largest = max(level.numbers for network in plan.networks for level in network)
    at_once = min(BATCH, rows_per_batch(4 * len(plan.networks) * largest))
    for batch in monitor.each("step", rows.split(at_once)):
        with torch.inference_mode():
            h = images.inputs(batch).to(device, next(plan.model.parameters()).dtype)
            for index, kept in enumerate(outputs):
                h = plan.fused[index].module(h)
                kept.append(stopped(h, plan, index, representatives).cpu())
    parents = ensemble([on_device(model, device) for model in models])
    first, last = (evaluate(network, images, rows=rows) for network in (parents, on_device(fused, device)))
    between = [measured(torch.cat(kept), images.labels[rows], len(images.classes)) for kept in outputs]
    return [first, *between, last]


def stopped(h: Boundary, plan: Levels, index: int, representatives: Mapping[int, Sequence[Tensor]]) -> Tensor:
    """(n, classes) log-probabilities if the fusion had stopped after level `index`.

    Args:
        h: the fused network's boundary after that level.
        representatives: level -> each parent's `readings`.
    """
    tails = [
        compose(levels[index + 1 :], read_from(h, plan.fused[index], levels[index], representatives, k))
        for k, levels in enumerate(plan.parents)
    ]
    return mean_of_softmax(torch.stack(tails))


def read_from(
    h: Boundary, fused: Level, parent: Level, representatives: Mapping[int, Sequence[Tensor]], k: int
) -> Boundary:
    """Parent k's boundary, with each neuron read from the fused neuron that represents it."""
    tensors = (h,) if isinstance(h, Tensor) else h
    read = [
        tensor  # the network's input
        if alive.maker < 0
        else _picked(tensor.movedim(alive.axis, -1), representatives[alive.maker][k]).movedim(-1, of_parent.axis)
        for tensor, alive, of_parent in zip(tensors, fused.alive, parent.alive, strict=True)
    ]
    return read[0] if isinstance(h, Tensor) else tuple(read)


def _picked(fused: Tensor, reading: Tensor) -> Tensor:
    """A parent's neurons (..., width) from fused ones (..., d)."""
    if reading.dtype.is_floating_point:
        return fused @ reading.to(fused.dtype)
    return fused.index_select(-1, reading)


def readings(report: LevelReport, device: torch.device) -> list[Tensor]:
    """How each parent's neurons are read from the fused ones: (width,) the fused neuron of each or, if targets are not group
    means, (d, width) the weights that best reconstruct it from the targets of its head."""
    if report.weights is None:
        return list(report.labels.to(device).split(list(report.widths)))
    reading = read_back(report.weights.double(), report.gram.double())
    return list(reading.to(device).split(list(report.widths), 1))
