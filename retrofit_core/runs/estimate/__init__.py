"""Predict whether a run can work, and its time and memory, before any training or fusion.

Networks with blank weights go through the method's own checks, so refusals are the method's messages.
"""

from dataclasses import dataclass
from pathlib import Path

from ...system import device as devices
from ...system.refusals import Cure, cures_of
from ...training.parents import TrainConfig
from .. import RunConfig
from .memory import peak_memory
from .planning import PlannedLevel, data_of, inputs_of, plan_method, planned_levels
from .seconds import START, finetuning_seconds, forward_seconds, parent_seconds, run_seconds


@dataclass(frozen=True)
class Estimate:
    """What a run will take, or why it cannot work."""

    refusal: str | None
    """One sentence, with advice; the numbers are then zero"""
    seconds: float = 0.0
    """About so long from the start of the worker to the finished record, on an idle machine"""
    memory: int = 0
    """Peak bytes; 0 for methods without levels"""
    levels: int = 0
    """Levels or aligned neuron groups; 0 for methods with neither"""
    cures: tuple[Cure, ...] = ()
    """If refused: settings with values that would work"""


def estimate(config: RunConfig, training: TrainConfig | None = None, folder: str | Path = ".") -> Estimate:
    """Predict the cost of a run, including the training of missing parents.

    Args:
        training: of the parents, if they are to be trained.
        folder: folder that file names in the config are relative to.
    """
    folder = Path(folder).absolute()
    try:
        config, inputs, planned = inputs_of(config, training, folder)
        method = plan_method(config, inputs)
    except ValueError as error:
        return Estimate(str(error).replace(f"{folder}/", ""), cures=cures_of(error))
    images, tests = data_of(config.data, config.mean, config.std, config.size)
    device, missing = devices.pick(config.device).type, list[int]()
    if training is not None:
        trained = range(1 if training.twins else training.parts)
        missing = [k for k in trained if not (folder / training.files()[k]).exists()]
    seconds = sum(parent_seconds(planned, k, device) for k in missing if planned)
    seconds += run_seconds(method, inputs.models, device, tests=tests if config.evaluate else 0, analyse=config.analyse)
    memory = peak_memory(method, len(method.plan.task.inputs), images, missing)
    return Estimate(None, seconds, memory, len(method.plan.cost.groups))
