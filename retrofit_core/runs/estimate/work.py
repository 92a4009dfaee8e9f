"""What there is to do in a run, counted."""

import dataclasses
import json
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
from ...training.parents import TrainConfig
from ...training.parents import plan as plan_training
from .. import RunConfig, check_choices, check_fitting, class_shares, fusion_rows
from ..inputs import Inputs, beside_parents
from .memory import disk_bytes, peak_memory
from .pace import Pace, pace_of
from .planning import blank, plan_method
from .seconds import analysis_seconds, method_seconds, training_seconds


@dataclass(frozen=True)
class Work:
    """What a run takes by count alone."""

    seconds: dict[str, tuple[float, float]]
    """Stage -> (least, most) at this machine's pace"""
    reading: float
    memory: int
    disk: int
    levels: int
    """Or neuron groups that are aligned; 0 for methods that know neither"""
    whole: bool = True
    """False: the seconds leave out what the method itself does, which only earlier runs tell"""


@dataclass(frozen=True)
class _Data:
    images: Images
    """Training images; only labels and shape are read"""
    tests: int
    seconds: float
    """that reading it took"""


@lru_cache(maxsize=2)
def _data(name: str, mean: Any, std: Any, size: int | None) -> _Data:
    start = time.perf_counter()
    train = load(name, "train", mean, std, size)
    tests = len(load(name, "test", mean, std, size)) if has_split(name, "test") else 0
    return _Data(train, tests, time.perf_counter() - start)


@lru_cache(maxsize=512)
def count_work(config: RunConfig, training: TrainConfig | None, folder: Path, all_parents: bool = False) -> Work:
    """Counted once for each config; raises ValueError where the run cannot work."""
    check_choices(config)
    data = _data(_source(config.data, folder), config.mean, config.std, config.size)
    arch = user_code.at(config.arch, folder)
    read = dataclasses.replace(config, models=tuple(str(folder / path) for path in config.models), arch=arch)
    if training is None:
        models = [_network(folder / path, read, data.images) for path in config.models]
        check_fitting(models, data.images)
        rows = read_splits(folder / config.splits, config.models, len(data.images.labels)) if config.splits else None
        missing: list[int] = []
    else:
        planned = plan_training(training, data.images)
        models, rows = [blank(json.dumps(spec)) for spec in planned.specs], planned.rows
        trained = range(1 if training.twins else training.parts)
        missing = [k for k in trained if all_parents or not (folder / training.files()[k]).exists()]
    target = _target(config.target, data, folder)
    base = _network(folder / config.base, beside_parents(read), data.images) if config.base else None
    images = config.samples * (1 + config.augment)
    balanced(data.images.labels, config.samples, rows=fusion_rows(config, rows))
    device = devices.pick(config.device)
    counts = [len(part) for part in rows] if rows else None
    blanks = torch.zeros(1, *data.images.shape).expand(images, -1, -1, -1), torch.zeros(images, dtype=torch.long)
    parents_data = [(blanks[0][:2], blanks[1][:2])] * len(models)
    shares = class_shares(config, data.images, rows)
    method = plan_method(config, Inputs(models, data.images, blanks, parents_data, target, shares, counts, base))
    paces = _paces([*models, *method.networks], device)
    parents, fused = paces[: len(models)], paces[len(models) :]
    side_by_side = Pace(sum(pace.fixed for pace in fused), sum(pace.per_image for pace in fused))
    alone = [*parents, side_by_side]
    seconds = {"fusion": method_seconds(method, config.importance_samples, alone, device)}
    if config.analyse and isinstance(method.plan, FusionPlan):
        seconds["analysis"] = analysis_seconds(method, method.plan.levels, config.importance_samples, alone, device)
    if training is not None and missing:
        seconds["training"] = training_seconds(planned, missing, paces, device)
    if config.evaluate:  # and the average
        measuring = data.tests * sum(pace.forward for pace in [*paces, parents[0]])
        seconds["measuring"] = (measuring, measuring)
    return Work(
        seconds,
        reading=data.seconds,
        memory=peak_memory(method, images, data.images, missing),
        disk=disk_bytes(method, missing, config.analyse),
        levels=len(method.cost.groups),
        whole=method.cost.complete,
    )


def _network(path: Path, config: RunConfig, like: Images) -> nn.Module:
    """The network of a checkpoint, read once for all the methods that a leaderboard asks about."""
    stamp = path.stat() if path.exists() else None
    arch, order = config.arch, classes_of(config.models, like)
    stamped = (stamp.st_mtime_ns, stamp.st_size) if stamp else None
    return _read(path, arch, like, config.weights, order, user_code.code_digest(arch), stamped)


@lru_cache(maxsize=4)  # they are held whole
def _read(
    path: Path,
    arch: str | None,
    like: Images,
    weights: str,
    order: tuple[str, ...],
    code: str | None,
    stamp: tuple[int, int] | None,
) -> nn.Module:
    return load_model(path, arch, like=like, weights=weights, classes=order)[0]


def _paces(networks: Sequence[nn.Module], device: torch.device) -> list[Pace]:
    return [pace_of(json.dumps(network.spec), device.type) for network in networks]


def _source(name: str, folder: Path) -> str:
    """A data set as a worker in `folder` would find it."""
    folders = (folder / name, folder / "data" / name)
    return next((str(path) for path in folders if path.is_dir()), name)


def _target(name: str | None, data: _Data, folder: Path) -> nn.Module | None:
    if name is None:
        return None
    if (folder / name).is_file():
        return load_model(folder / name)[0]
    user_code.allow(name, folder)
    return blank(json.dumps(fitted(parse(name), data.images.shape, len(data.images.classes))))
