"""The five steps inside a level, in their order."""

from .after import fit, targets
from .before import activations, importance
from .grouping import grouping

DRAWN = {"activations": activations, "importance": importance, "grouping": grouping, "targets": targets, "fit": fit}
