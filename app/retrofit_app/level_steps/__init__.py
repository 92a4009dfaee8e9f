"""The five steps inside a level, each with its pictures and two sentences."""

from .after import fit, targets
from .before import activations, importance
from .grouping import grouping
from .view import View

__all__ = ["View", "activations", "fit", "grouping", "importance", "targets"]
