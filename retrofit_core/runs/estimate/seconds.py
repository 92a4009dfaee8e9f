"""Seconds of a run's stages, from operation counts and the machine's pace."""

import math
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from ...data.augment import augmented
from ...fusion.budget import columns
from ...fusion.fit import Fit, Ridge
from ...fusion.grouping import Grouper
from ...fusion.importance import IMPORTANCE, Importance
from ...fusion.joint_spaces import Levels
from ...fusion.moments import dual_is_cheaper, lags
from ...fusion.task import Cost
from ...inspection.analysis import SEEDS, TEST_IMAGES
from ...networks.levels import Heads
from ...training.batches import steps_in
from ...training.parents import PlannedParent
from .pace import Pace, products_rate, step_seconds
from .planning import MethodPlan

#: Overhead in steps of the smallest level: of each level in closed form, and additionally of the first level.
LEVEL, FIRST = 5, 200


def training_seconds(
    planned: PlannedParent, missing: Sequence[int], paces: Sequence[Pace], device: torch.device
) -> tuple[float, float]:
    """Steps of all epochs, augmentation, and a forward pass over the held-out rows per epoch."""
    total = 0.0
    for index in missing:
        settings, pace, rows = planned.settings[index], paces[index], len(planned.rows[index])
        held_out = settings["holdout"] * rows
        steps = steps_in(int(rows - held_out), settings["batch"])
        # Half of the smallest step for the loop's overhead: drawing rows, events, status.
        epoch = (
            steps * (pace.fixed + step_seconds(device.type) / 2)
            + (rows - held_out) * pace.per_image
            + held_out * pace.forward
        )
        total += settings["epochs"] * (epoch + rows * _augmenting(settings, planned.images.shape))
    return total, total


def _augmenting(settings: dict[str, Any], shape: tuple[int, int, int]) -> float:
    """Seconds of augmentation per image, measured on a few."""
    augmentation = settings["crop"], settings["flip"], settings["policy"]
    return _augmentation_pace(*augmentation, shape) if any(augmentation) else 0.0


@lru_cache(maxsize=8)
def _augmentation_pace(crop: int, flip: bool, policy: str | None, shape: tuple[int, int, int]) -> float:
    pixels, draw = torch.zeros(256, *shape, dtype=torch.uint8), torch.Generator().manual_seed(0)
    start = time.perf_counter()
    augmented(pixels, crop, flip, policy, draw)
    return (time.perf_counter() - start) / len(pixels)


def method_seconds(
    planned: MethodPlan, importance_samples: int, paces: Sequence[Pace], device: torch.device
) -> tuple[float, float]:
    """The countable time of a method: least, most.

    Args:
        importance_samples: per parent.
        paces: of the parents, then of the result.
    """
    *parents, fused = paces
    cost = planned.cost
    always = cost.passes * sum(pace.forward for pace in parents)
    scoring = [fusion.task.importance for fusion in planned.fusions] or (
        [planned.task.importance] if cost.scored else []
    )
    # Fusions that are tried one after the other have their scores in common.
    always += max((importance_seconds(s, importance_samples, len(cost.groups), parents) for s in scoring), default=0.0)
    least, most = always, always
    for fusion in planned.fusions:
        of_levels = _level_seconds(fusion, fusion.plan.levels, fused, device)
        least, most = least + of_levels[0], most + of_levels[1]
    if cost.trained is None:
        return least, most
    fewest, longest = _descent_seconds(cost, fused, device)
    budget = getattr(planned.algorithm, "budget", None)
    if budget is not None:  # no epoch begins after it
        longest = min(longest, budget + longest / max(1, cost.epochs[1]))
    return least + min(fewest, longest), most + longest


def _descent_seconds(cost: Cost, fused: Pace, device: torch.device) -> tuple[float, float]:
    """Time of an optimiser's epochs over samples: least, most."""
    step = step_seconds(device.type)
    trained = fused if cost.trained == "network" else Pace(step, 0.0)
    train, held_out = cost.samples * (1 - cost.descent.validation), cost.samples * cost.descent.validation
    steps = math.ceil(train / cost.descent.batch_size) * max(trained.fixed, step)
    epoch = steps + train * trained.per_image + held_out * trained.forward
    fewest, most = cost.epochs
    return fewest * epoch, most * epoch


def _level_seconds(planned: MethodPlan, levels: Levels, fused: Pace, device: torch.device) -> tuple[float, float]:
    """Time of all levels, and of the passes through the fused network."""
    fit, images = planned.algorithm.fit, len(planned.task.inputs)
    step, count = step_seconds(device.type), len(levels.fused)
    always = FIRST * step + images * fused.forward
    always += sum(_grouping(levels, k, planned.algorithm.grouping) for k in range(count))
    fewest, most = fit.epochs_range
    if not most:
        always += sum(_closed_form(levels, k, images, fit, device) for k in range(count))
        return always, always
    train, held_out = images * (1 - fit.validation), images * fit.validation
    # A pass over the held-out images counts as one more step, and the loss at all positions as half a pass.
    # The fixed cost of a step is the optimiser's work on large levels, and overhead on small ones.
    steps = (math.ceil(train / fit.batch_size) + 1) * max(fused.fixed, step * count)
    epoch = steps + 1.5 * train * fused.per_image + held_out * fused.forward
    return always + fewest * epoch, always + most * epoch


def analysis_seconds(
    planned: MethodPlan, levels: Levels, importance_samples: int, paces: Sequence[Pace], device: torch.device
) -> tuple[float, float]:
    """Time of all scores, groupings by each from several seeds, the moments again, and the accuracy after each level (on
    average half of the parents' tails and of the fused prefix)."""
    fit, images, count = planned.algorithm.fit, len(planned.task.inputs), len(levels.fused)
    total = sum(importance_seconds(score(), importance_samples, count, paces[:-1]) for score in IMPORTANCE.values())
    total += (images + TEST_IMAGES * count / 2) * sum(pace.forward for pace in paces)
    closed = Ridge() if fit.epochs_range[1] else fit
    for index, level in enumerate(levels.fused):
        total += len(IMPORTANCE) * SEEDS * _grouping(levels, index, planned.algorithm.grouping)
        total += _closed_form(levels, index, images, closed, device) if level.affine is not None else 0.0
    return total, total


def importance_seconds(importance: Importance, samples: int, levels: int, parents: Sequence[Pace]) -> float:
    """Time of forward and backward passes without weight gradients: two thirds of a training step."""
    return importance.passes(levels) * samples * sum(2 / 3 * pace.per_image for pace in parents)


def _grouping(levels: Levels, index: int, grouping: Grouper) -> float:
    """Seconds of a level's grouping; 0 at fixed levels, later levels of a stream, and for the few heads of attentions."""
    level = levels.fused[index]
    known = level.fixed or isinstance(level.blocks, Heads) or levels.stream(index)[0] < index
    return 0.0 if known else grouping.seconds(sum(levels.widths(index)), level.width)


def _closed_form(levels: Levels, index: int, images: int, fit: Fit, device: torch.device) -> float:
    """Seconds for moments, in the precision of products, and solves in float64; symmetric products count half."""
    level = levels.fused[index]
    layer, *beside = level.form.layers
    m, d, n = columns(levels.networks, index), level.width, images * level.positions
    p = level.form.inputs_per_neuron + level.form.bias
    overhead = LEVEL * step_seconds(device.type)
    products = products_rate(device.type, fit.products(torch.float32, device))
    solves = products_rate(device.type, torch.float64)
    if dual_is_cheaper(n, p, m):
        work = n * n * p + n**3 / 3 + 2 * n * n * m + 2 * n * m * m + n * m * m + 2 * n * d * (m + p)
        return overhead + (work + n**3 / 3 + 2 * n * n * m) / solves  # the report factorises again
    by_lags = lags.applies(layer) and not beside
    matrices = level.form.parts or 1
    inputs = len(lags.LAGS) * 2 * n * layer.weight.shape[1] ** 2 if by_lags else matrices * n * p * p
    sums = inputs + 2 * n * p * m + n * m * m
    factor = p**3 / 3 + p * p * m
    # The report factorises again. Sums are partly memory-bound: half the rate.
    return overhead + 2 * sums / products + (2 * factor + p * m * m + 2 * p * m * d + p * p * d) / solves
