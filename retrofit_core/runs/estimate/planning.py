"""A run's inputs with blank weights, its method's plan or refusal, and its levels side by side, without computing anything."""

import dataclasses
import json
import os
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...baselines.auto import AutoPlan
from ...data import Images, has_split, load
from ...data.sampling import balanced
from ...data.splits import read_splits
from ...fusion.algorithm import FusionPlan
from ...fusion.grouping import Grouper
from ...fusion.joint_spaces import Levels
from ...methods import METHODS, RETROFITTING
from ...networks import user_code
from ...networks.architectures import Architecture, build, fitted, parse
from ...networks.checkpoints import classes_of, load_model
from ...networks.levels import Level
from ...system.refusals import Cure, Refusal, cures_of
from ...training.parents import PlannedParent, TrainConfig
from ...training.parents import plan as plan_training
from ..config import FIELDS, RunConfig
from ..inputs import Inputs, beside_parents, check_choices, check_fitting, class_shares, fusion_rows


@lru_cache(maxsize=32)
def blank(spec: str) -> Any:
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


@dataclass(frozen=True, eq=False)
class MethodPlan:
    """A method that accepted a run."""

    algorithm: Any
    """The method's value"""
    plan: Any
    """Its plan"""

    @property
    def fusions(self) -> list["MethodPlan"]:
        """The fusions by level that it consists of: itself, those that a method chooses from, or none."""
        if isinstance(self.plan, AutoPlan):
            return [MethodPlan(*trial) for trial in self.plan.trials.values()]
        return [self] if isinstance(self.plan, FusionPlan) else []

    @property
    def networks(self) -> list[nn.Module]:
        """Networks with the result's shapes: one, or all parents side by side."""
        task = self.plan.task
        if self.algorithm.takes.keeps_parents:
            return list(task.parents)
        return [task.parents[0] if task.target is None else task.target]


def plan_method(config: RunConfig, inputs: Inputs) -> MethodPlan:
    """Plan a config's method for networks with blank weights.

    Raises:
        Refusal: with cures that work here: those of the method's refusal, and the most similar of the paper's methods.
    """
    try:
        return planned(config, inputs)
    except ValueError as error:
        method = METHODS[config.method]
        named = [cure for cure in cures_of(error) if _works(config, inputs, cure)]
        others = sorted(RETROFITTING, key=lambda name: -len(METHODS[name].fixed.items() & method.fixed.items()))
        asked = others if method.takes.levels or not named else []
        similar = list(islice((cure for name in asked if _works(config, inputs, cure := ("method", name))), 1))
        words = f" {similar[0][1]} works here." if similar and method.takes.levels else ""
        raise Refusal(f"{error}{words}", *dict.fromkeys([*similar, *named])) from error


def _works(config: RunConfig, inputs: Inputs, cure: Cure) -> bool:
    """Whether the run is accepted with a cure."""
    try:
        planned(*_cured(config, inputs, *cure))
    except ValueError:
        return False
    return True


def _cured(config: RunConfig, inputs: Inputs, name: str, value: Any) -> tuple[RunConfig, Inputs]:
    """A config with a cure, and its inputs; another method keeps the settings that it has."""
    if name == "method":
        keywords = METHODS[value].keywords()
        told = {option: given for option, given in (config.options or {}).items() if option in keywords}
        score = config.importance if METHODS[value].takes.importance else RunConfig.importance
        return dataclasses.replace(config, method=value, importance=score, options=told), inputs
    if name == "target":
        return dataclasses.replace(config, target=None), dataclasses.replace(inputs, target=None)
    if name == "samples":
        x, y = inputs.fusion
        blanks = x[:1].expand(value, *x.shape[1:]), y[:1].expand(value)
        return dataclasses.replace(config, samples=value), dataclasses.replace(inputs, fusion=blanks)
    if name in FIELDS:
        return dataclasses.replace(config, **{name: value}), inputs
    return dataclasses.replace(config, options={**(config.options or {}), name: value}), inputs


def planned(config: RunConfig, inputs: Inputs) -> MethodPlan:
    """As `plan_method`, without looking for cures."""
    method = METHODS[config.method]
    keywords = inputs.keywords(config) | {"device": "cpu"}
    algorithm, task = method.prepare(inputs.models, inputs.fusion, **keywords)
    return MethodPlan(algorithm, algorithm.plan(task))


@lru_cache(maxsize=2)
def data_of(name: str, mean: Any, std: Any, size: int | None) -> tuple[Images, int]:
    """Training images (only labels and shape are read), and the number of test images."""
    train = load(name, "train", mean, std, size)
    return train, len(load(name, "test", mean, std, size)) if has_split(name, "test") else 0


def inputs_of(
    config: RunConfig, training: TrainConfig | None, folder: Path
) -> tuple[RunConfig, Inputs, PlannedParent | None]:
    """A config with its files located, the content that `read_inputs` would load (blank for untrained networks and images), and
    the training.

    Raises:
        ValueError: a choice has no safe default, or the files do not belong together.
    """
    check_choices(config)
    config = config.located(folder)
    images, _ = data_of(config.data, config.mean, config.std, config.size)
    planned = None
    if training is not None:
        planned = plan_training(training, images)
        models, rows = [blank(json.dumps(spec)) for spec in planned.specs], planned.rows
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
        user_code.allow(target)
        fused = blank(json.dumps(fitted(parse(target), images.shape, len(images.classes))))
    inputs = Inputs(
        models,
        images,
        blanks,
        [of_a_parent] * len(models),
        fused,
        class_shares(config, images, rows),
        [len(part) for part in rows] if rows else None,
        _network(config.base, beside_parents(config), images) if config.base else None,
    )
    return config, inputs, planned


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


# --- which levels of the parents become which fused level ---------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A level of one network."""

    name: str
    kind: str
    width: int
    """Neurons"""
    positions: int
    """Rows per sample: image positions, tokens, or 1"""


@dataclass(frozen=True)
class PlannedLevel:
    """Levels of the parents, and the fused level that they become."""

    parents: tuple[Part, ...]
    fused: Part
    becomes: str
    """What happens to the neurons"""


def planned_levels(config: RunConfig, training: TrainConfig | None, folder: Path) -> tuple[PlannedLevel, ...]:
    """The levels of a run in order; () for methods without levels.

    Raises:
        ValueError: the method refuses the networks, or the run's files are unreadable or do not belong together.
    """
    if not METHODS[config.method].takes.levels:
        return ()
    config, inputs, _ = inputs_of(config, training, folder)
    method = planned(config, inputs)
    levels: Levels = method.plan.levels
    return tuple(
        PlannedLevel(
            tuple(_part(parent[index]) for parent in levels.parents),
            _part(level),
            _becomes(levels, method.algorithm.grouping, index),
        )
        for index, level in enumerate(levels.fused)
    )


def _becomes(levels: Levels, grouping: object, index: int) -> str:
    """What happens to a level's neurons, space by space."""
    words = []
    for space in levels.written(index):
        if space.fixed:
            words.append(f"{space.width} classes stay in their places" if levels.fused[index].head else "stay in place")
        elif space.first < index:
            words.append(f"grouped as at {levels.fused[space.first].name}")
        elif isinstance(grouping, Grouper) and grouping.equal_widths:
            words.append(f"{space.width} groups, one neuron of each network")
        else:
            words.append(f"{sum(space.widths)} neurons in {space.width} groups")
    return "; ".join(dict.fromkeys(words))


def _part(level: Level) -> Part:
    return Part(level.name, level.kind, level.width, level.positions)
