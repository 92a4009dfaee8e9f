"""Leaderboards of many methods on one set of parents: what was asked for, what exists, and the worker that makes the rest.

A leaderboard is in comparisons/KEY of the runs folder. Each method's run has its own record in the runs folder;
the leaderboard's settings.json lists those that it made.
"""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from retrofit_core.runs import store
from retrofit_core.runs.store import COMPARISON, SETTINGS, STATUS, SWEEP, Work, read_json
from retrofit_core.system import files

from .listing import same_network
from .records import Entry, runs_folder
from .sweeps import begin, made_by

#: The paper's methods, which pictures highlight.
PAPERS = ("HF-Linear", "KF-Linear", "HF-Gradient", "KF-Gradient")
#: Options of a run that its leaderboard gives to all methods that have them.
SHARED_OPTIONS = ("preset", "ridge", "toward")
#: The default selection: something from each family.
USUAL = (
    "HF-Linear",
    "KF-Linear",
    "Random-Linear",
    "Average",
    "Ensemble",
    "OTFusion",
    "Git-Re-Basin",
    "KD",
)
#: Families of methods: what they do, and the methods.
FAMILIES = {
    "Retrofitting": (
        "group neurons and fit each level to the groups",
        (*PAPERS, "Auto"),
    ),
    "Controls": (
        "fit in the same way to groups that know nothing of the neurons",
        ("Random-Linear",),
    ),
    "Averaging": (
        "mix weights, neuron i with neuron i",
        ("Average", "FedAvg", "RegMean", "Task-Arithmetic", "TIES", "DARE"),
    ),
    "Matching": (
        "align neurons first, then average",
        (
            "OTFusion",
            "Transformer-OTFusion",
            "Git-Re-Basin",
            "ZipIt",
            "PLeaS",
        ),
    ),
    "Distillation": ("train on the fusion samples", ("KD", "LP")),
    "Ensembles": ("run all networks side by side", ("Ensemble", "Ensemble-Logits")),
}
#: What has several runs -> by its folder in the runs folder.
BOARDS = {kind.folder: kind for kind in (COMPARISON, SWEEP)}
#: Keys of a leaderboard's settings.json, besides its runs.
ASKED = ("of", "methods", "scores", "runs")
#: Methods that every measured run measures, too -> their names there.
KNOWN = {"Average": "average", "Ensemble": "ensemble"}


def families(methods: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Methods by family, in words; those without a family come last."""
    known = {name for _, names in FAMILIES.values() for name in names}
    each = {
        f"{family}: {words}": tuple(name for name in names if name in methods)
        for family, (words, names) in FAMILIES.items()
    }
    each["Others"] = tuple(name for name in methods if name not in known)
    return {words: names for words, names in each.items() if names}


@dataclass(frozen=True)
class BoardRun:
    """A run of a leaderboard."""

    config: Any
    """A `RunConfig`"""
    name: str
    entry: Entry | None
    """The existing run, done or in progress"""
    reason: str
    """Why an earlier attempt failed"""

    @property
    def done(self) -> bool:
        """Whether its record is finished."""
        return self.entry is not None and self.entry.state == "done"


@dataclass(frozen=True, kw_only=True)
class Leaderboard(Work):
    """All runs of a leaderboard, and its folder."""

    base: Any
    """The `RunConfig` that all share"""
    methods: str
    scores: str
    runs: tuple[BoardRun, ...]
    """In working order"""
    home: Path
    """The folder that file names are relative to"""
    of: str
    """The run whose parents and settings all share"""

    @property
    def score(self) -> str:
        """The importance of all runs that weigh neurons; "" if there are several."""
        return "" if "," in self.scores else self.scores

    def short(self, name: str) -> str:
        """A run's name, without the importance if all share it."""
        return name.replace(f", {self.score}", "", 1) if self.score else name

    @property
    def state(self) -> str:
        """running, done, cancelled, failed, interrupted, or new if nobody has started it."""
        state = super().state
        return "interrupted" if state == "done" and not self.is_whole else state

    @cached_property
    def written(self) -> dict[str, Any]:
        """leaderboard.json as its worker has written it so far; {} if there is none."""
        return read_json(self.folder / COMPARISON.growing)

    @property
    def measured(self) -> dict[str, dict[str, Any]]:
        """Rows written so far, by name."""
        return {row["name"]: row for row in self.written.get("rows", [])}

    @property
    def samples(self) -> int:
        """The number of test images."""
        return int(self.written.get("samples", 0))

    @property
    def is_whole(self) -> bool:
        """Whether every run has its row."""
        return all(run.name in self.measured for run in self.runs)

    @property
    def at_work(self) -> BoardRun | None:
        """The run the worker is making."""
        return next((run for run in self.runs if run.name not in self.measured), None) if self.going else None


def leaderboard(entry: Entry, methods: Sequence[str], scores: Sequence[str], entries: Sequence[Entry]) -> Leaderboard:
    """Every method with every score, on a finished run's parents and with its settings.

    Args:
        entries: all runs; some may already be part of it.
    Raises:
        ValueError: no method or no score, or another version wrote the run's record.
    """
    from retrofit_core.runs import RunConfig
    from retrofit_core.runs.comparison import configurations, has_norms, quick_first, title

    if not methods or not scores:
        raise ValueError("a leaderboard needs at least one method and one importance score. Choose them above.")
    whole = RunConfig.from_json(entry.config)
    shared = {name: value for name, value in (whole.options or {}).items() if name in SHARED_OPTIONS}
    plain = {"method": RunConfig.method, "importance": RunConfig.importance, "options": shared}
    base = replace(whole, evaluate=True, analyse=True, **plain)
    norms = has_norms(entry.base / base.models[0])
    configs = configurations(base, ",".join(methods), ",".join(scores), norms=norms)
    folder = runs_folder()
    planned = []
    for config in quick_first(configs):
        same = same_network(config, list(entries), entry.base)
        planned.append(BoardRun(config, title(config), same, "" if same else _failure(folder / config.key())))
    key = files.key_of([[config.key() for config in configs], entry.networks])
    return Leaderboard(
        kind=COMPARISON,
        folder=folder / COMPARISON.folder / key,
        base=base,
        methods=",".join(methods),
        scores=",".join(scores),
        runs=tuple(planned),
        home=entry.base,
        of=entry.name,
    )


def start(board: Leaderboard) -> None:
    """Start the worker that makes the missing runs and ranks all, unless it is already running.

    Raises:
        Busy: other work is running.
        ValueError: the runs folder is not writable.
    """
    from retrofit_core.runs import record_folder

    _, _, *words = shlex.split(board.base.command())
    words += ["--methods", board.methods, "--importance", board.scores]
    # Runs that were there before are not its own.
    made = {record_folder(runs_folder(), run.config, board.home).name for run in board.runs if run.entry is None}
    made |= set(read_json(board.folder / SETTINGS).get("made", ()))
    asked = dict(zip(ASKED, (board.of, board.methods, board.scores, len(board.runs)), strict=True))
    finished = [run.entry for run in board.runs if run.entry and run.done]
    begin(board, words, board.home, finished, {**asked, "made": sorted(made)})


# --- kept leaderboards ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class KeptBoard(Work):
    """A leaderboard or a sweep that was started, and the runs it made."""

    runs: tuple[Entry, ...]
    """Those that still exist, newest first, at least one"""

    @property
    def name(self) -> str:
        """Its id among runs; no run has such a name."""
        return f"{self.kind.folder}/{self.folder.name}"

    @property
    def state(self) -> str:
        """As in `Leaderboard`."""
        rows, state = read_json(self.folder / self.kind.growing).get("rows", []), super().state
        whole = sum(row.get("method", "") is not None for row in rows) >= self.settings["runs"]  # parents have none
        return "interrupted" if state == "done" and not whole else state

    @property
    def best(self) -> Entry:
        """Its most accurate run."""
        return max(self.runs, key=lambda entry: entry.accuracy or 0)


def kept(entries: Sequence[Entry]) -> list[KeptBoard]:
    """The leaderboards and sweeps that made several runs, last started first; each run belongs to one at most."""
    notes = [note for kind in BOARDS.values() for note in (runs_folder() / kind.folder).glob(f"*/{SETTINGS}")]
    free, boards = {entry.name: entry for entry in entries if not entry.shipped}, []
    for note in sorted(notes, key=lambda note: -note.stat().st_mtime):
        settings, kind = read_json(note), BOARDS[note.parent.parent.name]
        with suppress(LookupError, TypeError, AttributeError):  # of a damaged one: its runs are listed without it
            if kind == SWEEP:
                made = made_by(settings, read_json(note.parent / kind.growing)) if "over" in settings else ()
            else:
                made = settings["made"] if settings.keys() >= {*ASKED, "made"} else ()
            board_runs = tuple(entry for name, entry in free.items() if name in made)
            board = KeptBoard(kind=kind, folder=note.parent, settings=settings, runs=board_runs)
            if len(made) > 1 and board_runs and board.state:
                free = {name: entry for name, entry in free.items() if entry not in board_runs}
                boards.append(board)
    return boards


def delete(board: KeptBoard) -> None:
    """Delete a leaderboard or sweep, without its runs; see `store.delete`."""
    store.delete(Work(board.kind, board.folder), runs_folder())


def step(run: BoardRun) -> str:
    """The running run's progress in words."""
    status = read_json(runs_folder() / run.config.key() / STATUS)
    if status.get("state") != "running" or not status.get("levels"):
        return ""
    return f"level {status.get('level', 0) + 1} of {status['levels']}"


def _failure(folder: Path) -> str:
    """Why an earlier attempt at a run failed."""
    status = read_json(folder / STATUS)
    return str(status.get("error") or "") if status.get("state") == "failed" else ""
