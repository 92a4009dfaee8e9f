"""Where knowledge is lost: the accuracy if the fusion had stopped after each level."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..composites import mean_of_softmax
from ..data import Images
from ..device import rows_per_batch
from ..eligibility import Levels
from ..evaluation import ensemble, evaluate
from ..levels import Level, compose
from ..monitor import Monitor
from ..results import LevelReport

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
) -> list[float]:
    """Per cent on some rows: the ensemble, then fusion stopped after level 1, 2, ..., then the fused network.

    Stopped after a level, every parent goes on with its own remaining levels; there its neuron j is read from the fused
    neuron that stands for it. The parents' softmax outputs are averaged, as in the ensemble. Before the first level that
    is the ensemble of the parents, and after the last all of them are the fused network.
    """
    device = next(plan.model.parameters()).device
    representatives = [report.labels.to(device).split(list(report.widths)) for report in reports]
    hits = torch.zeros(len(plan.fused) - 1)
    for batch in monitor.each("step", rows.split(_batch(plan))):
        labels = images.labels[batch]
        with torch.inference_mode():
            h = images.inputs(batch).to(device, next(plan.model.parameters()).dtype)
            for index in range(len(hits)):
                h = plan.fused[index].module(h)
                logits = stopped(h, plan, index, representatives[index])
                hits[index] += (logits.argmax(1).cpu() == labels).sum()
    ends = [evaluate(network, images, rows=rows)["accuracy"] for network in (ensemble(list(models)), fused)]
    return [ends[0], *(100 * hits.double() / len(rows)).tolist(), ends[1]]


def stopped(h: Tensor, plan: Levels, index: int, representatives: Sequence[Tensor]) -> Tensor:
    """(n, classes) log-probabilities if the fusion had stopped after level `index`.

    Args:
        h: the fused network's boundary tensor after that level.
        representatives: for each parent the fused neurons that stand for its own, (width,).
    """
    tails = [
        compose(levels[index + 1 :], read_from(h, plan.fused[index], levels[index], chosen))
        for levels, chosen in zip(plan.parents, representatives, strict=True)
    ]
    return mean_of_softmax(torch.stack(tails), None)


def read_from(h: Tensor, fused: Level, parent: Level, chosen: Tensor) -> Tensor:
    """The parent's boundary tensor with neuron j taken from fused neuron chosen[j]."""
    return h.movedim(fused.axis, -1).index_select(-1, chosen).movedim(-1, parent.axis)


def _batch(plan: Levels) -> int:
    networks = [*plan.parents, plan.fused]
    largest = max(level.width * level.positions for network in networks for level in network)
    return min(BATCH, rows_per_batch(4 * len(networks) * largest))
