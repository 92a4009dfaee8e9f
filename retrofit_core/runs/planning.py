"""What a run would do, or why it cannot work, before any training or fusion."""

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..data import Images, load
from ..data.sampling import balanced
from ..data.splits import read_splits
from ..methods import METHODS
from ..networks.architectures import Architecture, build, fitted, parse
from ..networks.checkpoints import load_model
from ..system.refusals import Refusal, cures_of
from ..training.config import TrainConfig
from .config import RunConfig
from .inputs import Inputs, check_choices, check_fitting, fusion_rows
from .parents import plan as plan_training


def check_run(config: RunConfig, training: TrainConfig | None = None, folder: str | Path = ".") -> None:
    """Check a run, with the training of its parents, before any work.

    Networks with blank weights go through the method's own checks, so refusals are the method's messages.

    Args:
        training: of the parents, if they are to be trained.
        folder: folder that file names in the config are relative to.
    Raises:
        Refusal: the run cannot work; it has the cures of the error.
    """
    folder = Path(folder).absolute()
    try:
        inputs = _blank_inputs(config, training, folder)
        METHODS[config.method].plan(inputs.models, inputs.fusion, **(inputs.keywords(config) | {"device": "cpu"}))
    except ValueError as error:
        raise Refusal(str(error).replace(f"{folder}/", ""), *cures_of(error)) from error


def _blank_inputs(config: RunConfig, training: TrainConfig | None, folder: Path) -> Inputs:
    """What `read_inputs` would load; untrained networks and images are blank.

    Raises:
        ValueError: a choice has no safe default, or the files do not belong together.
    """
    check_choices(config)
    config = config.located(folder)
    images = _images(config.data, config.mean, config.std, config.size)
    if training is not None:
        planned = plan_training(training, images)
        models, rows = [_blank(json.dumps(spec)) for spec in planned.specs], planned.rows
    else:
        models = [_network(path, config, images) for path in config.models]
        check_fitting(models, images)
        rows = read_splits(config.splits, config.models, len(images.labels)) if config.splits else None
    balanced(images.labels, config.samples, rows=fusion_rows(config, rows))
    samples, target = config.samples * (1 + config.augment), config.target
    blanks = torch.zeros(1, *images.shape).expand(samples, -1, -1, -1), torch.zeros(samples, dtype=torch.long)
    image, label = (each[:1] for each in blanks)
    of_a_parent = image.expand(config.importance_samples, -1, -1, -1), label.expand(config.importance_samples)
    fused = None
    if target is not None and os.path.isfile(target):
        fused = load_model(target)[0]
    elif target is not None:
        fused = _blank(json.dumps(fitted(parse(target), images.shape, len(images.classes))))
    return Inputs(
        models,
        images,
        blanks,
        [of_a_parent] * len(models),
        fused,
        [len(part) for part in rows] if rows else None,
        _network(config.base, config, images) if config.base else None,
    )


@lru_cache(maxsize=2)
def _images(name: str, mean: Any, std: Any, size: int | None) -> Images:
    """Training images, of which only labels and shape are read."""
    return load(name, "train", mean, std, size)


def _network(path: str, config: RunConfig, like: Images) -> nn.Module:
    """The network of a checkpoint, cached for all methods of a leaderboard."""
    stamp = Path(path).stat() if Path(path).exists() else None
    stamped = (stamp.st_mtime_ns, stamp.st_size) if stamp else None
    return _read(path, config.arch, like, stamped)


@lru_cache(maxsize=4)  # whole networks
def _read(
    path: str,
    arch: str | None,
    like: Images,
    stamp: tuple[int, int] | None,
) -> nn.Module:
    return load_model(path, arch, like=like)[0]


@lru_cache(maxsize=32)
def _blank(spec: str) -> nn.Module:
    """The network of a spec in JSON with zero weights: cheap to make, and enough to cut into levels.

    Foreign networks stay as their factory makes them: their other tensors may not be zero.
    """
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        model = build(json.loads(spec))
    if not isinstance(model, Architecture):
        return model.eval()
    model = model.to_empty(device="cpu").eval()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.zero_()
    return model
