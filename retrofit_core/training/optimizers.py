"""OPTIMIZERS: parameters, learning rate and weight decay -> optimiser; SCHEDULES: step -> learning rate.

A rate depends on the step alone, so that training can resume anywhere.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ..system.registry import find

FIRST_CYCLE, GROWTH = 10, 2  # T_0 and T_mult, from the authors' earlier code; the paper states neither


def adamw(parameters: Iterable[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(**_replayable(parameters, rate), weight_decay=decay, fused=True)


def adam(parameters: Iterable[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    """Decay as an L2 term in the loss, as in the paper's earlier code."""
    return torch.optim.Adam(**_replayable(parameters, rate), weight_decay=decay, fused=True)


def sgd(parameters: Iterable[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    """SGD with Nesterov momentum 0.9."""
    return torch.optim.SGD(parameters, lr=rate, weight_decay=decay, momentum=0.9, nesterov=True, fused=True)


def _replayable(parameters: Iterable[nn.Parameter], rate: float) -> dict[str, Any]:
    """Parameters and learning rate; on a GPU the rate is a tensor, so that the steps of a CUDA graph read what it is now."""
    parameters = list(parameters)
    device = parameters[0].device
    if device.type == "cpu":
        return {"params": parameters, "lr": rate}
    return {"params": parameters, "lr": torch.tensor(rate, device=device), "capturable": True}


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of all parameters, in place if it is a tensor."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


OPTIMIZERS = {"adamw": adamw, "adam": adam, "sgd": sgd}


def cosine(step: int, steps: int, per_epoch: int, peak: float, floor: float) -> float:
    """Half a cosine from peak to floor, updated at every step; always above the floor.

    Equals torch's CosineAnnealingLR with T_max = steps + 1, one step ahead (the peak belongs to the warm-up).
    """
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * (step + 1) / (steps + 1)))


def restarts(step: int, steps: int, per_epoch: int, peak: float, floor: float) -> float:
    """Cosines of 10, 20, 40, ... epochs, each from the peak, updated at every epoch (Luenam et al. 2026, fine-tuning).

    Equals torch's CosineAnnealingWarmRestarts with T_0 = 10 and T_mult = 2, stepped once per epoch.
    """
    epoch, cycle = step // per_epoch, FIRST_CYCLE
    while epoch >= cycle:
        epoch, cycle = epoch - cycle, cycle * GROWTH
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * epoch / cycle))


SCHEDULES = {"cosine": cosine, "restarts": restarts}


def rates(
    schedule: str | Callable[..., float], per_epoch: int, epochs: int, *, warmup: float, peak: float, floor: float
) -> Callable[[int], float]:
    """The learning rate by step: a linear warm-up to the peak over `warmup` epochs, then the schedule.

    The warm-up takes at most half of all epochs, so that short trials of long recipes still anneal.
    """
    falls = find(SCHEDULES, schedule, "schedule")
    steps = per_epoch * epochs
    rising = round(min(warmup, epochs / 2) * per_epoch)

    def rate(step: int) -> float:
        if step < rising:
            return peak * (step + 1) / rising
        return falls(step - rising, steps - rising, per_epoch, peak, floor)

    return rate
