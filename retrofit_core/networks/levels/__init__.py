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
from .reading import places_read, reads_one_by_one

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
    "places_read",
    "reads_one_by_one",
    "rows",
    "single_level",
    "unfolded",
]
