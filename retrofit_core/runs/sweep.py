"""Sweeps: a comparison of a run with itself, with one numeric setting at several values."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..methods import METHODS
from ..system.registry import find, known_name
from ..system.settings import Setting, settings_of
from ..system.texts import read_value
from .comparison import compare_runs
from .config import RunConfig
from .inputs import check_choices
from .leaderboard import Leaderboard

LEAST, MOST = 3, 9
NUMBER = r"[\d.e+-]+x?"
#: Numeric settings of a run itself -> what its method must take (`Takes`).
OF_RUNS = {"samples": "uses_data", "augment": "uses_data", "importance_samples": "importance", "seed": "uses_data"}


def numeric_settings(base: RunConfig) -> dict[str, Setting]:
    """The settings of a run that can be swept, by name: its own and its method's."""
    method = METHODS[base.method]
    own = {name: settings_of(RunConfig)[name] for name, needed in OF_RUNS.items() if getattr(method.takes, needed)}
    options = method.settings({**(base.options or {}), "importance": base.importance})
    return own | {name: entry for name, entry in options.items() if {int, float} & set(entry.kinds)}


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

    def configs(self) -> dict[str, RunConfig]:
        """Each value's run with the first seed, by the names of their rows; all are evaluated."""
        configs = {f"{self.over} {value}": replace(self._at(value), evaluate=True) for value in self.values}
        for config in configs.values():
            check_choices(config)
        return configs

    def _at(self, value: Any) -> RunConfig:
        if self.over in OF_RUNS:
            return replace(self.base, **{self.over: value})
        return replace(self.base, options={**(self.base.options or {}), self.over: value})


def sweep(base: RunConfig, text: str, records: str | Path, *, seeds: int = 1, **settings: Any) -> Leaderboard:
    """Rank the values of a setting.

    Args:
        text: see `Sweep.read`.
        records, seeds, settings: see `compare_runs`.
    """
    configs = Sweep.read(base, text, seeds).configs()
    return compare_runs(configs, seeds=seeds, records=records, with_parents=False, **settings)
