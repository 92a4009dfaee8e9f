"""Predict which levels of the parents become which fused level, before any training or fusion."""

from dataclasses import dataclass
from pathlib import Path

from ...fusion.grouping import Grouper
from ...fusion.joint_spaces import Levels
from ...methods import METHODS
from ...networks.levels import Level
from ...training.parents import TrainConfig
from .. import RunConfig
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
