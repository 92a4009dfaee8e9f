"""Seconds of the stages of a run, from counted operations and the machine's pace."""

import math
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from ...data.augment import augmented
from ...fusion.algorithm import FusionPlan
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

#: Steps of the smallest level whose overhead a level in closed form has, and the first level of all besides.
LEVEL, FIRST = 5, 200


def training_seconds(
    planned: PlannedParent, missing: Sequence[int], paces: Sequence[Pace], device: torch.device
) -> tuple[float, float]:
    """Steps of all epochs, augmentation, and a forward pass of the held-out rows for each epoch."""
    total = 0.0
    for index in missing:
        settings, pace, rows = planned.settings[index], paces[index], len(planned.rows[index])
        held_out = settings["holdout"] * rows
        steps = steps_in(int(rows - held_out), settings["batch"])
        # Half of the smallest step for what the loop does beside it: drawing rows, events, the status.
        epoch = (
            steps * (pace.fixed + step_seconds(device.type) / 2)
            + (rows - held_out) * pace.per_image
            + held_out * pace.forward
        )
        total += settings["epochs"] * (epoch + rows * _augmenting(settings, planned.images.shape))
    return total, total


def _augmenting(settings: dict[str, Any], shape: tuple[int, int, int]) -> float:
    """Seconds an image that augmentation takes, measured on a few."""
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
    """What can be counted of a method: at least, at most.

    Args:
        importance_samples: of each parent.
        paces: of the parents, then of what becomes of them.
    """
    *parents, fused = paces
    cost = planned.cost
    always = cost.passes * sum(pace.forward for pace in parents)
    if cost.scored:
        always += importance_seconds(planned.task.importance, importance_samples, len(cost.groups), parents)
    least, most = always, always
    if isinstance(planned.plan, FusionPlan):
        of_levels = _level_seconds(planned, planned.plan.levels, fused, device)
        least, most = least + of_levels[0], most + of_levels[1]
    if cost.trained is None:
        return least, most
    fewest, longest = _descent_seconds(cost, fused, device)
    budget = getattr(planned.algorithm, "budget", None)
    if budget is not None:  # no epoch begins after it
        longest = min(longest, budget + longest / max(1, cost.epochs[1]))
    return least + min(fewest, longest), most + longest


def _descent_seconds(cost: Cost, fused: Pace, device: torch.device) -> tuple[float, float]:
    """The epochs of an optimiser that goes over samples: fewest, most."""
    step = step_seconds(device.type)
    trained = fused if cost.trained == "network" else Pace(step, 0.0)
    train, held_out = cost.samples * (1 - cost.descent.validation), cost.samples * cost.descent.validation
    steps = math.ceil(train / cost.descent.batch_size) * max(trained.fixed, step)
    epoch = steps + train * trained.per_image + held_out * trained.forward
    fewest, most = cost.epochs
    return fewest * epoch, most * epoch


def _level_seconds(planned: MethodPlan, levels: Levels, fused: Pace, device: torch.device) -> tuple[float, float]:
    """What each level takes, the passes through the fused network, and the second one through the parents that residual streams
    take, which are grouped by all their levels."""
    fit, images = planned.algorithm.fit, len(planned.task.inputs)
    step, count = step_seconds(device.type), len(levels.fused)
    always = FIRST * step + images * fused.forward
    always += sum(_grouping(levels, k, planned.algorithm.grouping) for k in range(count))
    fewest, most = fit.epochs_range
    if not most:
        always += sum(_closed_form(levels, k, images, fit, device) for k in range(count))
        return always, always
    train, held_out = images * (1 - fit.validation), images * fit.validation
    # A pass over the held-out images counts as a step more, and the loss, position by position, as half a pass.
    # What a step takes whatever its batch is the optimiser's work on large levels, and overhead on small ones.
    steps = (math.ceil(train / fit.batch_size) + 1) * max(fused.fixed, step * count)
    epoch = steps + 1.5 * train * fused.per_image + held_out * fused.forward
    return always + fewest * epoch, always + most * epoch


def analysis_seconds(
    planned: MethodPlan, levels: Levels, importance_samples: int, paces: Sequence[Pace], device: torch.device
) -> tuple[float, float]:
    """Every score, groupings by each of them from several seeds, the moments again, and the accuracy after each level
    (half of the parents' tails and of the fused prefix on average)."""
    fit, images, count = planned.algorithm.fit, len(planned.task.inputs), len(levels.fused)
    total = sum(importance_seconds(score(), importance_samples, count, paces[:-1]) for score in IMPORTANCE.values())
    total += (images + TEST_IMAGES * count / 2) * sum(pace.forward for pace in paces)
    closed = Ridge() if fit.epochs_range[1] else fit
    for index, level in enumerate(levels.fused):
        total += len(IMPORTANCE) * SEEDS * _grouping(levels, index, planned.algorithm.grouping)
        total += _closed_form(levels, index, images, closed, device) if level.affine is not None else 0.0
    return total, total


def importance_seconds(importance: Importance, samples: int, levels: int, parents: Sequence[Pace]) -> float:
    """Passes forward and backward without the weights' gradients: two thirds of a training step."""
    return importance.passes(levels) * samples * sum(2 / 3 * pace.per_image for pace in parents)


def _grouping(levels: Levels, index: int, grouping: Grouper) -> float:
    """Nothing at heads, where class k stays class k, nor where heads of attentions are grouped, which are few."""
    level = levels.fused[index]
    known = level.fixed or isinstance(level.blocks, Heads) or levels.stream(index)[0] < index
    return 0.0 if known else grouping.seconds(sum(levels.widths(index)), level.width)


def _closed_form(levels: Levels, index: int, images: int, fit: Fit, device: torch.device) -> float:
    """Moments in the precision of products, solves in float64; symmetric products count half."""
    level = levels.fused[index]
    layer, *beside = level.form.layers
    m, d, n = columns(levels.networks, index), level.width, images * level.positions
    p = level.form.inputs_per_neuron + level.form.bias
    overhead = LEVEL * step_seconds(device.type)
    products = products_rate(device.type, fit.products(torch.float32, device))
    solves = products_rate(device.type, torch.float64)
    if dual_is_cheaper(n, p, m):
        work = n * n * p + n**3 / 3 + 2 * n * n * m + 2 * n * m * m + n * m * m + 2 * n * d * (m + p)
        return overhead + (work + n**3 / 3 + 2 * n * n * m) / solves  # the report factors once more
    by_lags = lags.applies(layer) and not beside
    matrices = level.form.parts or 1
    inputs = len(lags.LAGS) * 2 * n * layer.weight.shape[1] ** 2 if by_lags else matrices * n * p * p
    sums = inputs + 2 * n * p * m + n * m * m
    factor = p**3 / 3 + p * p * m
    # The report factors once more. Sums are bound by memory as much as by arithmetic: half of the rate.
    return overhead + 2 * sums / products + (2 * factor + p * m * m + 2 * p * m * d + p * p * d) / solves
