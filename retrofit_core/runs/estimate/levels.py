"""Predict which levels of the parents become which fused level, before any training or fusion."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ...fusion.algorithm import Retrofit
from ...fusion.grouping import Grouper
from ...fusion.joint_spaces import Levels
from ...methods import METHODS
from ...networks.levels import Level, partition
from ...training.parents import TrainConfig
from .. import RunConfig
from ..inputs import Inputs, method_keywords
from .planning import inputs_of, planned


@dataclass(frozen=True)
class Part:
    """A level of one network."""

    name: str
    kind: str
    width: int
    """Neurons"""
    positions: int
    """Rows per sample: image positions, tokens, or 1"""
    head: bool
    """Whether its neurons are the classes"""


@dataclass(frozen=True)
class PlannedLevel:
    """Levels of the parents, and the fused level that they become."""

    parents: tuple[Part | None, ...]
    """None: that parent has no such level"""
    fused: Part | None
    becomes: str = ""
    """What happens to the neurons, if nothing is refused"""
    mismatch: str = ""
    """Why these levels do not match, if they do not"""


def planned_levels(config: RunConfig, training: TrainConfig | None, folder: Path) -> tuple[PlannedLevel, ...]:
    """The levels of a run in order; () for methods without levels, or networks that cannot be cut.

    If the method refuses the networks, each is cut separately, and the levels are listed side by side with mismatches.

    Raises:
        ValueError: the run's files are unreadable or do not belong together.
    """
    if not METHODS[config.method].takes.levels:
        return ()
    config, inputs, _ = inputs_of(config, training, folder)
    try:
        method = planned(config, inputs)
    except ValueError:
        return _apart(config, inputs)
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


def _apart(config: RunConfig, inputs: Inputs) -> tuple[PlannedLevel, ...]:
    """The levels of networks that do not match."""
    with suppress(ValueError):
        algorithm: Any = METHODS[config.method].algorithm(**method_keywords(config))
        models = [*inputs.models, inputs.target or inputs.models[0]]
        *parents, fused = [_cut(model, inputs.fusion[0][:2], algorithm) for model in models]
        return tuple(
            PlannedLevel(
                tuple(alike), ours, mismatch=_mismatch(alike, ours) or _ungrouped(alike, ours, algorithm.grouping)
            )
            for *alike, ours in zip_longest(*parents, fused)
        )
    return ()


def _cut(model: nn.Module, example: Tensor, algorithm: Retrofit) -> list[Part]:
    automatic = isinstance(algorithm.boundaries, str) and algorithm.boundaries == "auto"
    boundaries = algorithm.fit.levels if automatic else algorithm.boundaries
    return [_part(level) for level in partition(model, example, boundaries, leaves=algorithm.leaves)]


def _part(level: Level) -> Part:
    return Part(level.name, level.kind, level.width, level.positions, level.head)


def _mismatch(parents: Sequence[Part | None], fused: Part | None) -> str:
    """The first reason why levels do not match."""
    networks = {f"parent {index}": part for index, part in enumerate(parents)} | {"the fused network": fused}
    if missing := [name for name, part in networks.items() if part is None]:
        return f"{' and '.join(missing)} ha{'s' if len(missing) == 1 else 've'} no such level"
    there = [(name, part) for name, part in networks.items() if part]
    (one, first), *others = there
    for name, part in others:
        if part.kind != first.kind:
            return f"{one} has {first.kind}, {name} {part.kind}"
        if part.positions != first.positions:
            return f"{one} has {first.positions} places in each sample, {name} {part.positions}"
        if first.head and part.width != first.width:
            return f"{one} has {first.width} classes, {name} {part.width}"
    return ""


def _ungrouped(parents: Sequence[Part | None], fused: Part | None, grouping: object) -> str:
    """Why a grouping refuses levels that match otherwise."""
    if fused is None or fused.head or not isinstance(grouping, Grouper):
        return ""
    try:
        grouping.check(tuple(part.width for part in parents if part), fused.width)
    except ValueError as error:
        return re.split(r"; |\. Use", str(error))[0]
    return ""
