"""From counted work to an estimate, corrected by what earlier runs of the method took."""

import contextlib
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..runs import RunConfig
from ..training.parents import TrainConfig
from .work import count_work

#: Seconds from the start of a worker until it reads the data (Python and torch): at least, at most.
START = (2.0, 7.0)
#: The truth lies within this factor of a prediction, mostly: without and with earlier runs to learn from.
SPREAD, LEARNT = 2.0, 1.5


@dataclass(frozen=True)
class Estimate:
    """What a run will take, or why it cannot work."""

    refusal: str | None
    """One sentence, with the way out; the other fields are then zero"""
    seconds: tuple[float, float]
    """From the start of the worker to the finished record: at least, at most"""
    memory: int
    """Bytes, at the peak"""
    disk: int
    """Bytes that stay when the run is done: its record, and the parents that it trains"""
    levels: int
    whole: bool = True
    """False: nothing tells how long the method itself takes, for it has not been run here yet; it comes on top"""


def estimate(
    config: RunConfig,
    training: TrainConfig | None = None,
    past: Iterable[Mapping[str, Any]] = (),
    folder: str | Path = ".",
) -> Estimate:
    """What the run of a config will take, the training of missing parents included.

    Args:
        training: of its parents, if they are to be trained.
        past: finished runs, newest first: {"config", "training", "stages"} as in their records ("stages": the seconds
            in status.json).
        folder: where file names in the config are read from.
    """
    folder = Path(folder).absolute()
    try:
        work = count_work(config, training, folder)
    except ValueError as error:
        return Estimate(str(error).replace(f"{folder}/", ""), (0.0, 0.0), 0, 0, 0)
    ratios = _ratios(config.method, past, folder)
    low, high = (start + work.reading for start in START)
    for stage, (least, most) in work.seconds.items():
        ratio, spread = ratios.get(stage, (1.0, SPREAD))
        if stage == "fusion" and not work.whole:  # what is counted is but a part: the network's size, roughly
            spread = SPREAD
        low, high = low + ratio * least / spread, high + ratio * most * spread
    return Estimate(None, (low, high), work.memory, work.disk, work.levels, work.whole or "fusion" in ratios)


def _ratios(method: str, past: Iterable[Mapping[str, Any]], folder: Path) -> dict[str, tuple[float, float]]:
    """How much longer than predicted each stage took in the last three runs of the method, and how sure that is."""
    ratios: dict[str, list[float]] = {}
    used = 0
    for run in past:
        # Another version's record, or one whose files are gone, teaches nothing.
        with contextlib.suppress(ValueError, KeyError, TypeError):
            config = RunConfig.from_json(dict(run["config"]))
            if config.method.lower() != method.lower():
                continue
            training = TrainConfig.from_json(run["training"]) if run.get("training") else None
            work = count_work(config, training, folder, all_parents=True)
            for stage, (least, most) in work.seconds.items():
                if (taken := run["stages"].get(stage)) and most:
                    ratios.setdefault(stage, []).append(taken / math.sqrt(least * most))
            used += 1
        if used == 3:
            break
    return {stage: (statistics.median(of_stage), LEARNT) for stage, of_stage in ratios.items()}
