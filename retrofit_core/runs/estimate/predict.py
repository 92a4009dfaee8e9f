"""From counted work to an estimate, corrected by what earlier runs of the method took."""

import contextlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ...system import device as devices
from ...system.refusals import Cure, cures_of
from ...training.parents import PlannedParent, TrainConfig
from .. import RunConfig
from ..finetunings import FinetunePlan
from .pace import pace_of
from .seconds import training_seconds
from .work import count_work

#: Seconds from the start of a worker until it reads the data (Python and torch): at least, at most.
START = (2.0, 7.0)
#: The truth lies within this factor of a prediction, mostly: without and with earlier runs to learn from.
SPREAD, LEARNT = 2.0, 1.5
#: Runs of a kind that are learnt from, the newest: so many that agree are believed.
ENOUGH = 3
#: Stages that are the same work whatever the method.
OF_ANY_METHOD = ("training", "measuring")
#: On two processors with ten other processes, four runs took up to 1.7 times the longest time of an idle machine.
MOST_CROWDED = 3.0


@dataclass(frozen=True)
class Estimate:
    """What a run will take, or why it cannot work."""

    refusal: str | None
    """One sentence, with the way out; the numbers are then zero"""
    seconds: tuple[float, float]
    """From the start of the worker to the finished record: at least, at most"""
    memory: int
    """Bytes, at the peak"""
    disk: int
    """Bytes that stay when the run is done: its record, and the parents that it trains"""
    levels: int
    cures: tuple[Cure, ...] = ()
    """Settings with a value with which the run would work, where it is refused"""
    whole: bool = True
    """False: the time of the method itself is unknown, because it has not run here yet, and comes on top"""


def estimate(
    config: RunConfig,
    training: TrainConfig | None = None,
    past: Iterable[Mapping[str, Any]] = (),
    folder: str | Path = ".",
    crowding: float = 1.0,
) -> Estimate:
    """What the run of a config will take, the training of missing parents included.

    Args:
        training: of its parents, if they are to be trained.
        past: finished runs, newest first: {"config", "training", "stages"} as in their records ("stages": the seconds
            in status.json).
        folder: where file names in the config are read from.
        crowding: of the machine, see the function of that name: it makes the longest time longer.
    """
    folder = Path(folder).absolute()
    try:
        work = count_work(config, training, folder)
    except ValueError as error:
        return Estimate(str(error).replace(f"{folder}/", ""), (0.0, 0.0), 0, 0, 0, cures_of(error))
    factors = _factors(config.method, past, folder)
    crowding = crowding if devices.pick(config.device).type == "cpu" else 1.0
    low, high = START[0] + work.reading, (START[1] + work.reading) * crowding
    for stage, (least, most) in work.seconds.items():
        less, more = factors.get(stage, (1 / SPREAD, SPREAD))
        if (
            stage == "fusion" and stage in factors and not work.whole
        ):  # what is counted is but a part: the network's size, roughly
            less, more = less * LEARNT / SPREAD, more * SPREAD / LEARNT
        low, high = low + less * least, high + more * most * crowding
    return Estimate(None, (low, high), work.memory, work.disk, work.levels, whole=work.whole or "fusion" in factors)


def finetuning_seconds(plan: FinetunePlan, device: str = "auto") -> float:
    """About how many seconds, from the start of the worker on, on this machine as it is now.

    Raises:
        ValueError: the network is none of ours, so that its pace cannot be measured beforehand.
    """
    networks = (plan.run.fused, *plan.controls().values())
    specs = [spec for network in networks if isinstance(spec := getattr(network, "spec", None), dict)]
    if len(specs) < len(networks):
        raise ValueError("the pace of a network that is not from the library is known once it is trained.")
    chosen, count = devices.pick(device), len(specs)
    paces = [pace_of(json.dumps(spec), chosen.type) for spec in specs]
    planned = PlannedParent(plan.images, [plan.rows] * count, specs, [plan.settings] * count)
    trained, _ = training_seconds(planned, range(count), paces, chosen)
    # The networks before, on the held-out images, and those that are trained on about as many test images.
    measured = (len(plan.run.parents) * 2 + 2 * count) * len(plan.held_out) * paces[0].forward
    return sum(START) / 2 + trained + measured


def crowding() -> float:
    """How many times longer work on this machine's processors may take for what else they do: 1 where that is nothing.

    Whoever waits for a processor gets one in turn: with as much other work as processors, everything takes twice the time.
    Workers of the workbench step back for the rest, so that counts twice.
    """
    return min(1 + 2 * psutil.getloadavg()[0] / (os.cpu_count() or 1), MOST_CROWDED)


def _factors(method: str, past: Iterable[Mapping[str, Any]], folder: Path) -> dict[str, tuple[float, float]]:
    """By how much each stage may take less and more than counted, from how it went in the last runs that tell.

    Training and measuring are the same work whatever the method; the other stages are learnt from runs of the method alone.
    """
    ratios: dict[str, list[float]] = {}
    same_method = others = 0
    parts = set()
    for run in past:
        # Another version's record, or one whose files are gone, teaches nothing.
        with contextlib.suppress(ValueError, KeyError, TypeError):
            config = RunConfig.from_json(dict(run["config"]))
            same = config.method.lower() == method.lower()
            if (same_method if same else others) == ENOUGH:
                continue
            training = TrainConfig.from_json(run["training"]) if run.get("training") else None
            work = count_work(config, training, folder, all_parents=True)
            parts |= set() if work.whole else {"fusion"}
            for stage, (least, most) in work.seconds.items():
                if (taken := run["stages"].get(stage)) and most and (same or stage in OF_ANY_METHOD):
                    ratios.setdefault(stage, []).append(taken / math.sqrt(least * most))
            same_method, others = same_method + same, others + (not same)
    return {stage: _range(of_stage[:ENOUGH], stage in parts) for stage, of_stage in ratios.items()}


def _range(ratios: Sequence[float], part: bool) -> tuple[float, float]:
    """The factors' range with a margin. Fewer than ENOUGH may come from a busy hour: then what was counted is held possible,
    too; and far beyond the least of them nothing is believed, for the machine's other work can only add.

    Args:
        part: what was counted is but a part of the work, so that the factors may be as large as they like.
    """
    possible = ratios if len(ratios) == ENOUGH else [*ratios, 1.0]
    least, most = min(possible), max(possible)
    return least / LEARNT, LEARNT * (most if part else min(most, SPREAD * least))
