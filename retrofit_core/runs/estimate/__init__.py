"""Predict whether a run can work, and its time and memory, before any training or fusion.

Networks with blank weights go through the method's own checks, so refusals are the method's messages. Times follow from
operation counts, at the pace of a training step and a matrix product on this machine (measured in about a tenth of a second),
corrected by earlier runs; a busy machine may take longer.
"""

from .levels import PlannedLevel, planned_levels
from .pace import forward_seconds
from .predict import Estimate, crowding, estimate, finetuning_seconds

__all__ = [
    "Estimate",
    "PlannedLevel",
    "crowding",
    "estimate",
    "finetuning_seconds",
    "forward_seconds",
    "planned_levels",
]
