"""Count the work of a run."""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...data import Images, has_split, load
from ...data.sampling import balanced
from ...data.splits import read_splits
from ...fusion.algorithm import FusionPlan
from ...networks import user_code
from ...networks.architectures import fitted, parse
from ...networks.checkpoints import classes_of, load_model
from ...system import device as devices
from ...training.parents import PlannedParent, TrainConfig
from ...training.parents import plan as plan_training
from .. import RunConfig, check_choices, check_fitting, class_shares, fusion_rows
from ..inputs import Inputs, beside_parents
from ..locations import located
from .memory import disk_bytes, peak_memory
from .pace import Pace, pace_of
from .planning import blank, plan_method
from .seconds import analysis_seconds, method_seconds, training_seconds


@dataclass(frozen=True)
class Work:
    """The cost of a run by counting alone."""

    seconds: dict[str, tuple[float, float]]
    """Stage -> (least, most) at this machine's pace"""
    reading: float
    memory: int
    disk: int
    levels: int
    """Levels or aligned neuron groups; 0 for methods with neither"""
    whole: bool = True
    """False: the seconds exclude the method itself, which only earlier runs measure"""


@lru_cache(maxsize=2)
def _data(name: str, mean: Any, std: Any, size: int | None) -> tuple[Images, int, float]:
    """Training images (only labels and shape are read), the number of test images, and the seconds for reading them."""
    start = time.perf_counter()
    train = load(name, "train", mean, std, size)
    tests = len(load(name, "test", mean, std, size)) if has_split(name, "test") else 0
    return train, tests, time.perf_counter() - start


@lru_cache(maxsize=512)
def count_work(config: RunConfig, training: TrainConfig | None, folder: Path, all_parents: bool = False) -> Work:
    """Count a config's work, cached; raises ValueError if the run cannot work."""
    config, inputs, planned = inputs_of(config, training, folder)
    images, tests, reading = _data(config.data, config.mean, config.std, config.size)
    models, missing = inputs.models, list[int]()
    if training is not None:
        trained = range(1 if training.twins else training.parts)
        missing = [k for k in trained if all_parents or not (folder / training.files()[k]).exists()]
    method = plan_method(config, inputs)
    device = devices.pick(config.device)
    paces = [pace_of(json.dumps(network.spec), device.type) for network in (*models, *method.networks)]
    parents, fused = paces[: len(models)], paces[len(models) :]
    side_by_side = Pace(sum(pace.fixed for pace in fused), sum(pace.per_image for pace in fused))
    alone = [*parents, side_by_side]
    seconds = {"fusion": method_seconds(method, config.importance_samples, alone, device)}
    if config.analyse and isinstance(method.plan, FusionPlan):
        seconds["analysis"] = analysis_seconds(method, method.plan.levels, config.importance_samples, alone, device)
    if planned is not None and missing:
        seconds["training"] = training_seconds(planned, missing, paces, device)
    if config.evaluate:  # and the average
        measuring = tests * sum(pace.forward for pace in [*paces, parents[0]])
        seconds["measuring"] = (measuring, measuring)
    return Work(
        seconds,
        reading=reading,
        memory=peak_memory(method, len(method.task.inputs), images, missing),
        disk=disk_bytes(method, missing, config.analyse),
        levels=len(method.cost.groups),
        whole=method.cost.complete,
    )


def inputs_of(
    config: RunConfig, training: TrainConfig | None, folder: Path
) -> tuple[RunConfig, Inputs, PlannedParent | None]:
    """A config with its files located, the content that `read_inputs` would load (blank for untrained networks and images), and
    the training.

    Raises:
        ValueError: a choice has no safe default, or the files do not belong together.
    """
    check_choices(config)
    config = located(config, folder)
    images, _, _ = _data(config.data, config.mean, config.std, config.size)
    if training is not None:
        planned = plan_training(training, images)
        return (
            config,
            _inputs(config, [blank(json.dumps(spec)) for spec in planned.specs], images, planned.rows),
            planned,
        )
    models = [_network(path, config, images) for path in config.models]
    check_fitting(models, images)
    rows = read_splits(config.splits, config.models, len(images.labels)) if config.splits else None
    return config, _inputs(config, models, images, rows), None


def _inputs(
    config: RunConfig, models: Sequence[nn.Module], images: Images, rows: Sequence[torch.Tensor] | None
) -> Inputs:
    """The inputs of `read_inputs`, with blank images."""
    balanced(images.labels, config.samples, rows=fusion_rows(config, rows))
    samples = config.samples * (1 + config.augment)
    blanks = torch.zeros(1, *images.shape).expand(samples, -1, -1, -1), torch.zeros(samples, dtype=torch.long)
    return Inputs(
        list(models),
        images,
        blanks,
        [(blanks[0][:2], blanks[1][:2])] * len(models),
        _target(config.target, images),
        class_shares(config, images, rows),
        [len(part) for part in rows] if rows else None,
        _network(config.base, beside_parents(config), images) if config.base else None,
    )


def _network(path: str, config: RunConfig, like: Images) -> nn.Module:
    """The network of a checkpoint, cached for all methods of a leaderboard."""
    stamp = Path(path).stat() if Path(path).exists() else None
    stamped = (stamp.st_mtime_ns, stamp.st_size) if stamp else None
    return _read(path, config.arch, like, config.weights, classes_of(config.models, like), stamped)


@lru_cache(maxsize=4)  # whole networks
def _read(
    path: str,
    arch: str | None,
    like: Images,
    weights: str,
    order: tuple[str, ...],
    stamp: tuple[int, int] | None,
) -> nn.Module:
    return load_model(path, arch, like=like, weights=weights, classes=order)[0]


def _target(name: str | None, images: Images) -> nn.Module | None:
    if name is None:
        return None
    if os.path.isfile(name):
        return load_model(name)[0]
    user_code.allow(name)
    return blank(json.dumps(fitted(parse(name), images.shape, len(images.classes))))
