"""Turn counted work into an estimate, corrected by the times of earlier runs."""

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

#: Seconds from the start of a worker until it reads the data (Python and torch): least, most.
START = (2.0, 7.0)
#: Usual factor between prediction and truth, without and with earlier runs to learn from.
SPREAD, LEARNT = 2.0, 1.5
#: Number of newest runs of a kind to learn from; this many are trusted.
ENOUGH = 3
#: Stages that do not depend on the method.
OF_ANY_METHOD = ("training", "measuring")
#: On two processors with ten other processes, four runs took up to 1.7 times the longest time of an idle machine.
MOST_CROWDED = 3.0


@dataclass(frozen=True)
class Estimate:
    """What a run will take, or why it cannot work."""

    refusal: str | None
    """One sentence, with advice; the numbers are then zero"""
    seconds: tuple[float, float]
    """From the start of the worker to the finished record: least, most"""
    memory: int
    """Peak bytes"""
    disk: int
    """Bytes kept at the end: the record, and the parents that the run trains"""
    levels: int
    cures: tuple[Cure, ...] = ()
    """If refused: settings with values that would work"""
    whole: bool = True
    """False: excludes the time of the method itself, which is unknown because it has not run here yet"""


def estimate(
    config: RunConfig,
    training: TrainConfig | None = None,
    past: Iterable[Mapping[str, Any]] = (),
    folder: str | Path = ".",
    crowding: float = 1.0,
) -> Estimate:
    """Predict the cost of a run, including the training of missing parents.

    Args:
        training: of the parents, if they are to be trained.
        past: finished runs, newest first: {"config", "training", "stages"} as in their records ("stages": the seconds
            in status.json).
        folder: folder that file names in the config are relative to.
        crowding: factor on the longest time, see the function `crowding`.
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
        # Only part of the work is counted: roughly the network's size.
        if stage == "fusion" and stage in factors and not work.whole:
            less, more = less * LEARNT / SPREAD, more * SPREAD / LEARNT
        low, high = low + less * least, high + more * most * crowding
    return Estimate(None, (low, high), work.memory, work.disk, work.levels, whole=work.whole or "fusion" in factors)


def finetuning_seconds(plan: FinetunePlan, device: str = "auto") -> float:
    """Predicted seconds from the start of the worker, on this machine in its current state.

    Raises:
        ValueError: a network without a spec, whose pace cannot be measured beforehand.
    """
    networks = (plan.run.fused, *plan.controls().values())
    specs = [spec for network in networks if isinstance(spec := getattr(network, "spec", None), dict)]
    if len(specs) < len(networks):
        raise ValueError("the pace of a network that is not from the library is known once it is trained.")
    chosen, count = devices.pick(device), len(specs)
    paces = [pace_of(json.dumps(spec), chosen.type) for spec in specs]
    planned = PlannedParent(plan.images, [plan.rows] * count, specs, [plan.settings] * count)
    trained, _ = training_seconds(planned, range(count), paces, chosen)
    # All networks before, on the held-out images, and the trained ones on about as many test images.
    measured = (len(plan.run.parents) * 2 + 2 * count) * len(plan.held_out) * paces[0].forward
    return sum(START) / 2 + trained + measured


def crowding() -> float:
    """Factor by which other load on this machine's CPUs may slow work down; 1 without any.

    CPUs are shared in turn: with as much other work as cores, everything takes twice the time. The workbench's workers have
    low priority, so other load counts twice.
    """
    return min(1 + 2 * psutil.getloadavg()[0] / (os.cpu_count() or 1), MOST_CROWDED)


def _factors(method: str, past: Iterable[Mapping[str, Any]], folder: Path) -> dict[str, tuple[float, float]]:
    """The range of factors between actual and counted time per stage, from the last informative runs.

    Training and measuring do not depend on the method; other stages are learnt only from runs of the same method.
    """
    ratios: dict[str, list[float]] = {}
    same_method = others = 0
    parts = set()
    for run in past:
        # Skip records of other versions or with missing files.
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
    """The factors' range with a margin. Fewer than ENOUGH may come from a busy time, so the count itself remains possible; and
    values far above the least are ignored, because other load can only add time.

    Args:
        part: only part of the work is counted, so factors may be arbitrarily large.
    """
    possible = ratios if len(ratios) == ENOUGH else [*ratios, 1.0]
    least, most = min(possible), max(possible)
    return least / LEARNT, LEARNT * (most if part else min(most, SPREAD * least))
