"""What there is to do in a run, counted."""

import dataclasses
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .. import device as devices
from ..architectures import fitted, parse
from ..checkpoints import load_model
from ..data import Images, load
from ..data.sampling import balanced
from ..data.splits import read_splits
from ..methods import METHODS, RETROFITTING
from ..registry import find
from ..runs import RunConfig, asks_for_shares, check_choices, class_shares, fusion_rows
from ..training.parents import TrainConfig
from ..training.parents import plan as plan_training
from . import others
from .memory import BATCH, disk_bytes, peak_memory
from .pace import Pace, pace_of
from .planning import blank, plan_fusion
from .seconds import analysis_seconds, fusion_seconds, training_seconds


@dataclass(frozen=True)
class Work:
    """What a run takes by count alone."""

    seconds: dict[str, tuple[float, float]]
    """Stage -> (least, most) at this machine's pace"""
    reading: float
    memory: int
    disk: int
    levels: int
    """0 for methods that do not go level by level"""
    whole: bool = True
    """False: the seconds leave out what the method itself does, which only earlier runs tell"""


@dataclass(frozen=True)
class _Data:
    images: Images
    """Training images; only labels and shape are read"""
    tests: int
    seconds: float
    """that reading it took"""


@cache
def _data(name: str, mean: Any, std: Any, size: int | None) -> _Data:
    start = time.perf_counter()
    train, test = (load(name, split, mean, std, size) for split in ("train", "test"))
    return _Data(train, len(test), time.perf_counter() - start)


@cache
def count_work(config: RunConfig, training: TrainConfig | None, folder: Path, all_parents: bool = False) -> Work:
    """Counted once for each config; raises ValueError where the run cannot work."""
    check_choices(config)
    data = _data(_source(config.data, folder), config.mean, config.std, config.size)
    if training is None:
        models = [load_model(folder / path, config.arch)[0] for path in config.models]
        rows = read_splits(folder / config.splits, config.models, len(data.images.labels)) if config.splits else None
        missing: list[int] = []
    else:
        planned = plan_training(training, data.images)
        models, rows = [blank(json.dumps(spec)) for spec in planned.specs], planned.rows
        trained = range(1 if training.twins else training.parts)
        missing = [k for k in trained if all_parents or not (folder / training.files()[k]).exists()]
    target = _target(config.target, data, folder)
    images = config.samples * (1 + config.augment)
    balanced(data.images.labels, config.samples, rows=fusion_rows(config, rows))
    place = devices.pick(config.device)
    if find(METHODS, config.method, "method") in [METHODS[name] for name in RETROFITTING]:
        work, paces = _retrofitting(config, models, target, data.images, images, missing, place)
    else:
        work, paces = _other(config, models, target, data.images, images, missing, place, rows)
    seconds = dict(work.seconds)
    if training is not None and missing:
        seconds["training"] = training_seconds(planned, missing, paces, place)
    if config.evaluate:  # alone, and the parents again in the ensemble
        each = [data.tests * pace.forward for pace in paces]
        seconds["measuring"] = (2 * sum(each), 2 * sum(each))
    return dataclasses.replace(work, seconds=seconds, reading=data.seconds)


def _paces(networks: Sequence[nn.Module], place: torch.device) -> list[Pace]:
    return [pace_of(json.dumps(network.spec), place.type) for network in networks]


def _retrofitting(
    config: RunConfig,
    models: list[nn.Module],
    target: nn.Module | None,
    data: Images,
    images: int,
    missing: Sequence[int],
    place: torch.device,
) -> tuple[Work, list[Pace]]:
    """A method that goes level by level, and the paces of all networks."""
    found = plan_fusion(config, models, target, data, images)
    paces = _paces([*models, found.model], place)
    seconds = {"fusion": fusion_seconds(config, found, images, paces, place)}
    if config.analyse:
        seconds["analysis"] = analysis_seconds(config, found, images, paces, place)
    memory = peak_memory(config, found, images, data, bool(missing))
    return Work(seconds, 0.0, memory, disk_bytes(config, found, missing), len(found.fused)), paces


def _other(
    config: RunConfig,
    models: list[nn.Module],
    target: nn.Module | None,
    data: Images,
    images: int,
    missing: Sequence[int],
    place: torch.device,
    rows: Sequence[Tensor] | None,
) -> tuple[Work, list[Pace]]:
    """Any other method, as far as its work can be counted, and the paces of all networks."""
    shares = class_shares(data, list(rows) if rows else None) if asks_for_shares(config) else None
    found = others.rehearse(
        config, models, target, data, images, [len(part) for part in rows] if rows else None, shares
    )
    paces = _paces([*models, *found.fused], place)
    fused = paces[len(models) :]
    one = Pace(sum(pace.fixed for pace in fused), sum(pace.each for pace in fused))
    seconds, whole = others.method_seconds(config, found, images, [*paces[: len(models)], one], place)
    training = max((others.step_bytes(models[k], data.shape, BATCH) for k in missing), default=0)
    memory = others.memory_bytes(found, images, data, training)
    disk = others.disk_bytes(found, missing)
    return Work({"fusion": seconds}, 0.0, memory, disk, len(found.widths), whole), paces


def _source(name: str, folder: Path) -> str:
    """A data set as a worker in `folder` would find it."""
    places = (folder / name, folder / "data" / name)
    return next((str(path) for path in places if path.is_dir()), name)


def _target(name: str | None, data: _Data, folder: Path) -> nn.Module | None:
    if name is None:
        return None
    if (folder / name).is_file():
        return load_model(folder / name)[0]
    return blank(json.dumps(fitted(parse(name), data.images.shape, len(data.images.classes))))
