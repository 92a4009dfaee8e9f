"""Sweeps: a run with one numeric setting at several values, a comparison of a method with itself.

Each value's runs are kept as records, which are found by their content, so that an interrupted sweep goes on.
"""

import dataclasses
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from ..methods import METHODS
from ..networks.architectures import scaled_spec
from ..networks.checkpoints import read_metadata
from ..system.files import write
from ..system.monitor import Cancelled, Monitor
from ..system.registry import find, known_name
from ..system.settings import Range, Setting, settings_of
from ..system.texts import read_value
from .answers import difference, from_bits
from .comparison import finished_records
from .config import RunConfig
from .execute import Measurements, execute
from .identities import first_alike, of_network
from .inputs import check_choices
from .record import read_run, record_folder
from .store import SWEEP, read_json

LEAST, MOST = 3, 9
NUMBER = r"[\d.e+-]+x?"
WIDTH = Setting(
    "width",
    1.0,
    (float,),
    (),
    "hidden widths of the fused network, as multiples of the target's or parent 0's",
    Range(0, 16, without_low=True),
)
#: Numeric settings of a run itself -> what its method must take (`Takes`).
OF_RUNS = {"samples": "uses_data", "augment": "uses_data", "importance_samples": "importance", "seed": "uses_data"}


def numeric_settings(base: RunConfig) -> dict[str, Setting]:
    """The settings of a run that can be swept, by name: its own, its method's, and the width of its target."""
    method = METHODS[base.method]
    own = {name: settings_of(RunConfig)[name] for name, needed in OF_RUNS.items() if getattr(method.takes, needed)}
    options = method.settings({**(base.options or {}), "importance": base.importance})
    numeric = {name: entry for name, entry in options.items() if {int, float} & set(entry.kinds)}
    return {**own, **({WIDTH.name: WIDTH} if method.takes.target else {}), **numeric}


def place(value: float | str) -> float:
    """A value's place on an axis: 0.1 of "0.1x"."""
    return float(str(value).removesuffix("x"))


@dataclass(frozen=True)
class Sweep:
    """A run with one setting at three to nine values.

    Raises:
        ValueError: a setting that the method does not have, or values or a number of seeds that it does not take.
    """

    base: RunConfig
    over: str
    """One of `numeric_settings`"""
    values: tuple[float | str, ...]
    """Numbers, or all multiples such as "0.1x" where the setting takes them"""
    seeds: int = 1
    """Runs of each value, with seeds from the run's own on"""

    def __post_init__(self) -> None:
        known_name(METHODS, self.base.method, "method")
        entry = find(numeric_settings(self.base), self.over, "numeric setting")
        if not LEAST <= len(set(self.values)) == len(self.values) <= MOST:
            raise ValueError(
                f"a sweep takes {LEAST} to {MOST} different values. Found {len(self.values)} for {self.over}. "
                "Separate them by commas."
            )
        for value in self.values:
            if isinstance(value, bool) or not entry.takes(value) or not re.fullmatch(NUMBER, str(value)):
                raise ValueError(f"{self.over} is {value!r}. Use numbers: {entry.description}.")
        if len({isinstance(value, str) for value in self.values}) > 1:
            raise ValueError(f"{self.over} is a number in some values and a multiple in others. Write all in one way.")
        if self.over == "seed" and self.seeds > 1:
            raise ValueError("a sweep over the seed has one run for each value. Take one seed.")
        object.__setattr__(self, "values", tuple(sorted(self.values, key=place)))

    @classmethod
    def read(cls, base: RunConfig, text: str, seeds: int = 1) -> "Sweep":
        """From "ridge=0.01x,0.1x,1x"; raises as the constructor does."""
        name, sign, values = text.partition("=")
        if not sign or not name:
            raise ValueError(f"--over {text!r}: write a setting and its values, as in --over ridge=0.01x,0.1x,1x.")
        return cls(
            base, name.strip().replace("-", "_"), tuple(map(read_value, values.replace(" ", "").split(","))), seeds
        )

    def runs(self) -> list[list[RunConfig]]:
        """For each value its runs, one for each seed; all are evaluated."""
        points = [dataclasses.replace(self._at(value), evaluate=True) for value in self.values]
        for config in points:
            check_choices(config)
        return [
            [dataclasses.replace(config, seed=config.seed + seed) for seed in range(self.seeds)] for config in points
        ]

    def _at(self, value: Any) -> RunConfig:
        if self.over == WIDTH.name:
            target, first = self.base.target, self.base.models[0]
            spec = target if target and not Path(target).is_file() else read_metadata(target or first)["architecture"]
            return dataclasses.replace(self.base, target=json.dumps(scaled_spec(spec, value)))
        if self.over in OF_RUNS:
            return dataclasses.replace(self.base, **{self.over: value})
        return dataclasses.replace(self.base, options={**(self.base.options or {}), self.over: value})


def places(asked: Sweep, records: str | Path, also: Iterable[str | Path] = ()) -> list[list[tuple[RunConfig, Path]]]:
    """Each value's runs with the folders of their records, which may not exist yet.

    Args:
        also: finished records elsewhere, which stand for runs of the same work.
    """
    known = [(folder, stored) for folder, stored in finished_records(also) if read_json(folder / "metrics.json")]
    return [
        [(run, first_alike(run, known, part=of_network) or record_folder(records, run)) for run in point]
        for point in asked.runs()
    ]


def sweep(
    asked: Sweep,
    records: str | Path,
    *,
    also: Iterable[str | Path] = (),
    out: str | Path | None = None,
    monitor: Monitor | None = None,
) -> dict[str, Any]:
    """Make the missing runs and measure all.

    Args:
        records: folder of the runs' records, see `record_folder`.
        out: folder for sweep.json, which is written after each value.
    Returns:
        over, values, seeds, networks (results of parents, ensemble and average), and a row for each value: accuracy (%, mean
        over seeds), per_seed, seconds, runs (names of records), difference to the best value (points) with its paired 95 %
        interval, reason (None, or why there is no network).
    Raises:
        Cancelled: on request; finished records stay.
    """
    monitor, shared = monitor or Monitor(), Measurements()
    curve: dict[str, Any] = {"over": asked.over, "values": list(asked.values), "seeds": asked.seeds}
    curve |= {"networks": {}, "rows": []}
    answers: dict[float | str, Any] = {}
    points = places(asked, records, also)
    for index, (value, point) in enumerate(zip(asked.values, points, strict=True)):
        monitor.check()
        monitor.emit("phase", name=f"{asked.over} {value}:", index=index, total=len(points))
        row: dict[str, Any] = {"value": value, "runs": [folder.name for _, folder in point], "reason": None}
        try:
            made = [_made(config, folder, monitor, shared) for config, folder in point]
            found = [networks["fused"] for networks, _ in made]
        except Cancelled:
            raise
        except Exception as error:  # one value's failure must not stop the others
            row["reason"] = str(error) if isinstance(error, ValueError) else f"failed: {type(error).__name__}: {error}"
        else:
            others = {name: facts for name, facts in made[0][0].items() if name != "fused"}
            curve["networks"] = curve["networks"] or others
            answers[value] = np.stack([from_bits(facts["knows"], facts["samples"]) for facts in found])
            row |= {"accuracy": fmean(facts["accuracy"] for facts in found), "samples": found[0]["samples"]}
            row |= {"per_seed": [facts["accuracy"] for facts in found]}
            row |= {"seconds": fmean(seconds for _, seconds in made)}
        curve["rows"].append(row)
        measured = [each for each in curve["rows"] if each["reason"] is None]
        for each in measured:
            best = max(measured, key=lambda other: other["accuracy"])
            each["difference"], each["interval"] = difference(answers[each["value"]], answers[best["value"]])
        if out is not None:
            write(Path(out) / SWEEP.growing, json.dumps(curve, indent=1))
    return curve


def _made(
    config: RunConfig, folder: Path, monitor: Monitor, shared: Measurements
) -> tuple[dict[str, dict[str, Any]], float]:
    """A run's results by network, and the seconds of its fusion; it is made only if its record is not finished."""
    if (folder / "config.json").exists() and (run := read_run(folder)).state == "done":
        return run.metrics["networks"], run.status["seconds"]
    result, metrics = execute(config, folder, monitor, shared)
    return metrics["networks"], result.seconds
