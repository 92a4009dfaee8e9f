"""SCHEDULES: the learning rate of every step, as a function of the step alone (so training can go on anywhere)."""

import math
from collections.abc import Callable

from ..system.registry import find

FIRST_CYCLE, GROWTH = 10, 2  # T_0 and T_mult; the paper states neither, these are its earlier code's


def cosine(step: int, steps: int, per_epoch: int, peak: float, floor: float) -> float:
    """Half a cosine from peak to floor, changed at every step; above the floor at every step that is taken.

    Equals torch's CosineAnnealingLR with T_max = steps + 1, one step ahead (the peak belongs to the warm-up).
    """
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * (step + 1) / (steps + 1)))


def restarts(step: int, steps: int, per_epoch: int, peak: float, floor: float) -> float:
    """Cosines of 10, 20, 40, ... epochs, each from the peak, changed at every epoch (Luenam et al. 2026, fine-tuning).

    Equals torch's CosineAnnealingWarmRestarts with T_0 = 10 and T_mult = 2, stepped once an epoch.
    """
    epoch, cycle = step // per_epoch, FIRST_CYCLE
    while epoch >= cycle:
        epoch, cycle = epoch - cycle, cycle * GROWTH
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * epoch / cycle))


SCHEDULES = {"cosine": cosine, "restarts": restarts}


def rates(
    schedule: str | Callable[..., float], per_epoch: int, epochs: int, *, warmup: float, peak: float, floor: float
) -> Callable[[int], float]:
    """The learning rate by step: a linear rise to the peak over `warmup` epochs, then the schedule.

    The rise takes at most half of all epochs, so that a short trial of a long recipe still comes down.
    """
    falls = find(SCHEDULES, schedule, "schedule")
    steps = per_epoch * epochs
    rising = round(min(warmup, epochs / 2) * per_epoch)

    def rate(step: int) -> float:
        if step < rising:
            return peak * (step + 1) / rising
        return falls(step - rising, steps - rising, per_epoch, peak, floor)

    return rate
