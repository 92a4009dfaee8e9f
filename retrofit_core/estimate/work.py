"""What there is to do in a run, counted."""

import json
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torch import nn

from .. import device as devices
from ..architectures import fitted, parse
from ..checkpoints import load_model
from ..data import Images, load
from ..data.sampling import balanced
from ..data.splits import read_splits
from ..methods import METHODS, RETROFITTING
from ..registry import find
from ..runs import RunConfig, check_choices, fusion_rows
from ..training.parents import TrainConfig
from ..training.parents import plan as plan_training
from .memory import disk_bytes, peak_memory
from .pace import pace_of
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
    if find(METHODS, config.method, "method") not in [METHODS[name] for name in RETROFITTING]:
        raise ValueError(f"what {config.method} takes is not estimated: it does not go level by level.")
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
    found = plan_fusion(config, models, target, data.images, images)
    place = devices.pick(config.device)
    paces = [pace_of(json.dumps(model.spec), place.type) for model in (*models, found.model)]
    seconds = {"fusion": fusion_seconds(config, found, images, paces, place)}
    if training is not None and missing:
        seconds["training"] = training_seconds(planned, missing, paces, place)
    if config.evaluate:  # alone, and the parents again in the ensemble
        each = [data.tests * pace.forward for pace in paces]
        seconds["measuring"] = (2 * sum(each), 2 * sum(each))
    if config.analyse:
        seconds["analysis"] = analysis_seconds(config, found, images, paces, place)
    memory = peak_memory(config, found, images, data.images, bool(missing))
    disk = disk_bytes(config, found, missing)
    return Work(seconds, data.seconds, memory, disk, len(found.fused))


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
