"""How long a fine-tuning of a finished run will take."""

import json

from ...system import device as devices
from ...training.parents import PlannedParent
from ..finetunings import FinetunePlan
from .pace import pace_of
from .predict import START
from .seconds import training_seconds


def finetuning_seconds(plan: FinetunePlan, device: str = "auto") -> float:
    """About how many seconds, from the start of the worker on, on this machine as it is now.

    Raises:
        ValueError: the network is none of ours, so that its pace cannot be measured beforehand.
    """
    spec = getattr(plan.run.fused, "spec", None)
    if not isinstance(spec, dict):
        raise ValueError("the pace of a network that is not from the library is known once it is trained.")
    chosen = devices.pick(device)
    pace = pace_of(json.dumps(spec), chosen.type)
    planned = PlannedParent(plan.images, [plan.rows], [spec], [plan.settings])
    trained, _ = training_seconds(planned, [0], [pace], chosen)
    # The networks before, on the held-out images, and the network itself on about as many test images.
    measured = (len(plan.run.parents) * 2 + 2) * len(plan.held_out) * pace.forward
    return sum(START) / 2 + trained + measured
