"""Levels: a traced model cut where exactly one tensor is alive (paper sec. 3; docs/method.md)."""

from .cuts import BOUNDARIES
from .level import Level, compose, merged, rows, unfolded
from .partition import partition, single_level

__all__ = ["BOUNDARIES", "Level", "compose", "merged", "partition", "rows", "single_level", "unfolded"]
