"""Whether a run can work, and its time and memory: estimated before anything is trained or fused.

Networks are built without weights worth the name and handed to the checks of the method itself, so a refusal is its own
sentence. Seconds follow from counted operations, at the pace that one training step and one product of matrices have on this
machine (measured in about a tenth of a second), corrected by what earlier runs took; a busy machine may take longer.
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
