"""The checkpoints that the benchmarks fuse, as configs of `retrofit fuse`, and scores that many fusions of them take."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from retrofit_core import importance_scores
from retrofit_core.fusion.importance import Importance
from retrofit_core.runs import RunConfig
from retrofit_core.runs.inputs import Inputs

PAIRS = {
    "CIFAR-10 VGG11, non-IID": ("cifar10-vgg11-noniid2", "cifar10"),
    "CIFAR-10 VGG11 half width, sharded": ("cifar10-vgg11half-sharded2", "cifar10"),
    "MNIST MLP, non-IID": ("mnist-mlp-noniid2", "mnist"),
}


def config(shared: Path, pair: str, method: str = "KF-Linear", **settings: object) -> RunConfig:
    """The config that fuses one of PAIRS with 400 samples."""
    name, data = PAIRS[pair]
    models = tuple(str(shared / "models" / f"{name}-{index}.safetensors") for index in (0, 1))
    splits = str(shared / "models" / f"{name}-splits.json")
    files = {"models": models, "data": str(shared / "data" / data), "splits": splits}
    return RunConfig(method=method, **files, **settings)  # type: ignore[arg-type]


def scores_of(inputs: Inputs, importance: str | Importance) -> list[list[torch.Tensor]]:
    """Scores of every parent and level, on each parent's training rows, or on the fusion samples where none were read."""
    data = inputs.importance if isinstance(inputs.importance, list) else [inputs.fusion] * len(inputs.models)
    return [
        importance_scores(model, x, y, importance).values for model, (x, y) in zip(inputs.models, data, strict=True)
    ]


def in_turn(scores: list[list[torch.Tensor]]) -> Callable[..., Any]:
    """An importance function that returns scores of `scores_of`, parent by parent, again and again."""
    turns = itertools.cycle(scores)
    return lambda levels, x, y: next(turns)
