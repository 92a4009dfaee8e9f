"""Levels: a traced model cut where one tensor is alive, or behind every layer (paper sec. 3; docs/method.md)."""

from .cuts import BOUNDARIES
from .level import (
    Alive,
    Boundary,
    Carried,
    Heads,
    Kind,
    Level,
    Parts,
    compose,
    each,
    is_branched,
    merged,
    rows,
    unfolded,
)
from .partition import partition, single_level

__all__ = [
    "BOUNDARIES",
    "Alive",
    "Boundary",
    "Carried",
    "Heads",
    "Kind",
    "Level",
    "Parts",
    "compose",
    "each",
    "is_branched",
    "merged",
    "partition",
    "rows",
    "single_level",
    "unfolded",
]
