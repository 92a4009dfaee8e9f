"""Sweeps of one setting of a run: what was asked for, the worker that makes it, and its curve.

A sweep is in sweeps/KEY of the runs folder; its runs are records there, like others.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from retrofit_core.runs import worker
from retrofit_core.runs.store import SETTINGS, SWEEP, Work, read_json
from retrofit_core.system import files

from .records import Entry, runs_folder

#: Values that a form begins with.
USUAL = {
    "samples": "50, 100, 200, 400",
    "importance_samples": "50, 100, 200, 400",
    "augment": "0, 1, 2",
    "seed": "0, 1, 2, 3, 4",
    "width": "0.5, 0.75, 1, 1.5",
    "ridge": "0.001x, 0.01x, 0.1x, 1x",
}


@dataclass(frozen=True, kw_only=True)
class SweepWork(Work):
    """A sweep of a finished run's setting, which may not exist yet."""

    of: Entry
    """The run whose networks and other settings all have"""
    asked: Any
    """A `retrofit_core.runs.sweep.Sweep`"""

    @property
    def curve(self) -> Mapping[str, Any]:
        """over, seeds, rows (of a leaderboard, with their value) in the order of values, and the run's networks."""
        rows = {row["name"]: row for row in read_json(self.folder / SWEEP.growing).get("rows", ())}
        names = {f"{self.asked.over} {value}": value for value in self.asked.values}
        return {
            "over": self.asked.over,
            "seeds": self.asked.seeds,
            "networks": self.of.metrics.get("networks", {}),
            "rows": [{**rows[name], "value": value} for name, value in names.items() if name in rows],
        }

    @property
    def state(self) -> str:
        """As in `Work`; stopped before the last value, it is not done."""
        state = super().state
        return "interrupted" if state == "done" and len(self.curve["rows"]) < len(self.asked.values) else state

    @property
    def words_to_make(self) -> list[str]:
        """The command's arguments besides where to keep it."""
        base = self.asked.base
        _, _, *words = shlex.split(replace(base, method=type(base).method).command())
        values = ",".join(map(str, self.asked.values))
        words += ["--methods", base.method, "--over", f"{self.asked.over}={values}", "--seeds", str(self.asked.seeds)]
        return words


def settings_of(entry: Entry) -> Mapping[str, Any]:
    """The settings of a run that can be swept, by name."""
    from retrofit_core.runs.sweep import numeric_settings

    return numeric_settings(_base(entry))


def sweep(entry: Entry, over: str, values: str, seeds: int) -> SweepWork:
    """A finished run with one setting at several values, "0.1, 1, 10".

    Raises:
        ValueError: the method does not have the setting, or does not take the values.
    """
    from retrofit_core.runs.sweep import Sweep

    asked = Sweep.read(_base(entry), f"{over}={values}", seeds)
    key = files.key_of([asked.base.key(), over, list(asked.values), seeds, entry.networks])
    return SweepWork(kind=SWEEP, folder=runs_folder() / SWEEP.folder / key, of=entry, asked=asked)


def _base(entry: Entry) -> Any:
    from retrofit_core.runs import RunConfig

    return replace(RunConfig.from_json(entry.config), evaluate=False)


def start(work: SweepWork, entries: Sequence[Entry]) -> None:
    """Start the worker that makes the missing runs, unless it is already running.

    Args:
        entries: all runs, of which finished ones of the same work are not repeated.
    Raises:
        Busy: other work is running.
        ValueError: the runs folder is not writable.
    """
    alike = [
        entry
        for entry in entries
        if entry.state == "done"
        and entry.networks == work.of.networks
        and entry.config["method"] == work.asked.base.method
    ]
    before = read_json(work.folder / SETTINGS).get("before", [entry.name for entry in entries])
    asked = {"of": work.of.name, "over": work.asked.over, "values": list(work.asked.values), "seeds": work.asked.seeds}
    begin(work, work.words_to_make, work.of.base, alike, {**asked, "runs": len(work.asked.values), "before": before})


def begin(work: Work, words: Sequence[str], home: Path, also: Sequence[Entry], asked: Mapping[str, Any]) -> None:
    """Start the worker that makes several runs, unless it is already running, and note what was asked for.

    Args:
        words: the command's arguments besides places.
        home: the folder that file names are relative to.
        also: finished runs that need not be made again.
    """
    known = [word for entry in also for word in ("--also", str(entry.folder))]
    places = ["--records", str(runs_folder()), *known, "--out", str(work.folder), "--overwrite"]
    worker.begin(worker.Job(work, (*words, *places), home, runs_folder()))
    work.folder.mkdir(parents=True, exist_ok=True)
    files.write(work.folder / SETTINGS, json.dumps(asked))


def made_by(note: Mapping[str, Any], board: Mapping[str, Any]) -> list[str]:
    """The runs that a sweep has made, without those that were there before."""
    return [name for row in board.get("rows", ()) for name in row["runs"] or () if name not in note.get("before", ())]
