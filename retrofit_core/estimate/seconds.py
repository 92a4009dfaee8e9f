"""Seconds of the stages of a run, from counted operations and the machine's pace."""

import dataclasses
import math
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from .. import lags
from ..analysis import SEEDS, TEST_IMAGES
from ..data.augment import augmented
from ..eligibility import Plan
from ..grouping.kmeans import RESTARTS
from ..moments import dual_is_cheaper, product_dtype
from ..runs import RunConfig
from ..settings import resolve
from ..training.batches import steps_in
from ..training.parents import Planned
from .pace import Pace, products_rate, step_seconds
from .planning import given_settings, keywords_of

#: Restarts x iterations of k-means that are usual, and its element operations a second.
LLOYD_STEPS, ELEMENTS = 11 * 15, 1e9
#: Steps of the smallest level whose overhead a level in closed form has, and the first level of all besides.
LEVEL, FIRST = 5, 200


def training_seconds(
    planned: Planned, missing: Sequence[int], paces: Sequence[Pace], place: torch.device
) -> tuple[float, float]:
    """Steps of all epochs, augmentation, and a forward pass of the held-out rows for each epoch."""
    total = 0.0
    for index in missing:
        settings, pace, rows = planned.settings[index], paces[index], len(planned.rows[index])
        held_out = settings["holdout"] * rows
        steps = steps_in(int(rows - held_out), settings["batch"])
        # Half of the smallest step for what the loop does beside it: drawing rows, events, the status.
        epoch = (
            steps * (pace.fixed + step_seconds(place.type) / 2)
            + (rows - held_out) * pace.each
            + held_out * pace.forward
        )
        total += settings["epochs"] * (epoch + rows * _augmenting(settings, planned.images.shape))
    return total, total


def _augmenting(settings: dict[str, Any], shape: tuple[int, int, int]) -> float:
    """Seconds an image that augmentation takes, measured on a few."""
    chosen = settings["crop"], settings["flip"], settings["policy"]
    return _augmentation_pace(*chosen, shape) if any(chosen) else 0.0


@lru_cache(maxsize=8)
def _augmentation_pace(crop: int, flip: bool, policy: str | None, shape: tuple[int, int, int]) -> float:
    pixels, draw = torch.zeros(256, *shape, dtype=torch.uint8), torch.Generator().manual_seed(0)
    start = time.perf_counter()
    augmented(pixels, crop, flip, policy, draw)
    return (time.perf_counter() - start) / len(pixels)


def fusion_seconds(
    config: RunConfig, plan: Plan, images: int, paces: Sequence[Pace], place: torch.device
) -> tuple[float, float]:
    """Importance, forward passes, and what each level takes."""
    *parents, fused = paces
    step = step_seconds(place.type)
    keywords = keywords_of(config.method)
    settings = resolve(config.preset, keywords["grouping"], keywords["fit"], given_settings(config))
    always = (
        FIRST * step
        + images * sum(pace.forward for pace in paces)
        + importance_seconds(config, len(plan.fused), parents)
    )
    always += sum(_grouping(plan, k, keywords["grouping"]) for k in range(len(plan.fused)))
    if keywords["fit"] == "ridge":
        always += sum(_closed_form(plan, k, images, config, place) for k in range(len(plan.fused)))
        return always, always
    train = images * (1 - settings["validation"])
    # A pass over the held-out images counts as a step more, and the loss, position by position, as half a pass.
    # What a step takes whatever its batch is the optimiser's work on large levels, and overhead on small ones.
    steps = (math.ceil(train / settings["batch_size"]) + 1) * max(fused.fixed, step * len(plan.fused))
    epoch = steps + 1.5 * train * fused.each + images * settings["validation"] * fused.forward
    # It may stop as soon as `patience` epochs bring nothing.
    fewest = min(settings["epochs"], settings["patience"] + 1)
    return always + fewest * epoch, always + settings["epochs"] * epoch


def analysis_seconds(
    config: RunConfig, plan: Plan, images: int, paces: Sequence[Pace], place: torch.device
) -> tuple[float, float]:
    """Both attributions, groupings of every score from several seeds, the moments again, and the accuracy after each
    level (half of the parents' tails and of the fused prefix on average)."""
    others = [dataclasses.replace(config, importance=name) for name in ("conductance", "deeplift")]
    total = sum(importance_seconds(other, len(plan.fused), paces[:-1]) for other in others)
    passes = images + TEST_IMAGES * len(plan.fused) / 2
    total += passes * sum(pace.forward for pace in paces)
    grouping = keywords_of(config.method)["grouping"]
    for index, level in enumerate(plan.fused):
        total += 3 * SEEDS * _grouping(plan, index, grouping)
        total += _closed_form(plan, index, images, config, place) if level.affine is not None else 0.0
    return total, total


def importance_seconds(config: RunConfig, levels: int, parents: Sequence[Pace]) -> float:
    """Passes forward and backward without the weights' gradients: two thirds of a training step."""
    passes = {"conductance": 11, "deeplift": 2 * levels}.get(config.importance.lower(), 0)
    return passes * config.importance_samples * sum(2 / 3 * pace.each for pace in parents)


def _grouping(plan: Plan, index: int, grouping: str) -> float:
    level = plan.fused[index]
    m, d = sum(parent[index].width for parent in plan.parents), level.width
    if level.head:
        return 0.0
    if grouping == "hungarian":
        return 1e-3 + 1e-9 * d**3
    seeding = RESTARTS * d * (2 + math.log(d)) * m
    return d * 1e-4 + (3 * seeding + LLOYD_STEPS * m * m) / ELEMENTS


def _closed_form(plan: Plan, index: int, images: int, config: RunConfig, place: torch.device) -> float:
    """Moments in the precision of products, solves in float64; symmetric products count half."""
    level = plan.fused[index]
    assert level.affine is not None
    m, d, n = sum(parent[index].width for parent in plan.parents), level.width, images * level.positions
    p = level.affine.weight[0].numel() + (level.affine.bias is not None)
    products = products_rate(place.type, product_dtype(config.ridge, torch.float32, place))
    solves = products_rate(place.type, torch.float64)
    if dual_is_cheaper(n, p, m):
        work = n * n * p + n**3 / 3 + 2 * n * n * m + 2 * n * m * m + n * m * m + 2 * n * d * (m + p)
        return (
            LEVEL * step_seconds(place.type) + (work + n**3 / 3 + 2 * n * n * m) / solves
        )  # the report factors once more
    inputs = len(lags.LAGS) * 2 * n * level.affine.weight.shape[1] ** 2 if lags.applies(level.affine) else n * p * p
    sums = inputs + 2 * n * p * m + n * m * m
    factor = p**3 / 3 + p * p * m
    # The report factors once more. Sums are bound by memory as much as by arithmetic: half of the rate.
    return (
        LEVEL * step_seconds(place.type)
        + 2 * sums / products
        + (2 * factor + p * m * m + 2 * p * m * d + p * p * d) / solves
    )
