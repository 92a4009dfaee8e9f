"""Predict whether a run can work, and its time and memory, before any training or fusion.

Networks with blank weights go through the method's own checks, so refusals are the method's messages.
"""

from .levels import PlannedLevel, planned_levels
from .predict import Estimate, estimate
from .seconds import START, finetuning_seconds, forward_seconds

__all__ = ["START", "Estimate", "PlannedLevel", "estimate", "finetuning_seconds", "forward_seconds", "planned_levels"]
