"""What each ingredient of a fusion brings: its networks averaged, grouped without a fit, and fitted to controls' groups.

They lie in a leaderboard of their own in the run's folder, which no record is kept of. No torch until a start.
"""

import shlex
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from retrofit_core.runs import worker
from retrofit_core.runs.answers import difference, from_bits
from retrofit_core.runs.config import SHARED_OPTIONS
from retrofit_core.runs.store import COMPARISON, Work, read_json

from .methods import decided
from .records import Entry

#: For each method the one that groups as it does and can do without a fit.
WITHOUT_FIT = {
    "HF-Linear": "HF-Linear",
    "KF-Linear": "KF-Linear",
    "HF-Gradient": "HF-Linear",
    "KF-Gradient": "KF-Linear",
    "KF-Linear-KD": "KF-Linear",
}
#: Groups that know nothing of the neurons.
CONTROLS = ("same_index", "random")
AVERAGE, OWN, UNWEIGHTED = "average", "own", "unweighted"
UNIFORM = "uniform"  # the score that weighs nothing
NAME = "ingredients"


@dataclass(frozen=True)
class Ingredient:
    """A network that has only some of what the fused one has."""

    groups: str
    """AVERAGE, OWN (the run's), UNWEIGHTED (as the run's, where every neuron counts alike), or one of CONTROLS"""
    fitted: bool
    accuracy: float
    knows: Any
    """(n,) bool, the test images that it knows"""

    def beyond(self, other: "Ingredient") -> tuple[float, tuple[float, float]]:
        """Points that it has more than another one, and their paired interval of 95 %."""
        return difference(self.knows, other.knows)


def work_of(entry: Entry) -> Work:
    """The leaderboard of a run's ingredients, which may not exist yet."""
    return Work(COMPARISON, entry.folder / COMPARISON.folder / NAME)


def has_some(entry: Entry) -> bool:
    """Whether a run is made of them: several networks, grouped and fitted by one of the paper's methods."""
    made = decided(entry)
    several = len(entry.config["models"]) > 1
    return several and entry.config["method"] in WITHOUT_FIT and made.get("refit", True) is not False


def read(work: Work) -> list[Ingredient]:
    """Those that were measured, in no particular order; a grouping that does not apply to the networks has none.

    Raises:
        ValueError: the file is damaged.
    """
    board = read_json(work.folder / COMPARISON.last)
    try:
        rows = [row for row in board["rows"] if row["method"] and row["reason"] is None]
        weighed = any(row["importance"] not in (None, UNIFORM) for row in rows)
        return [_ingredient(row, board["samples"], weighed) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{COMPARISON.last} of the ingredients cannot be read ({type(error).__name__}).") from error


def _ingredient(row: dict[str, Any], images: int, weighed: bool) -> Ingredient:
    own = UNWEIGHTED if weighed and row["importance"] == UNIFORM else OWN
    groups = AVERAGE if row["method"] == "Average" else row["grouping"] if row["grouping"] in CONTROLS else own
    fitted = groups != AVERAGE and (row["options"] or {}).get("refit") is not False
    return Ingredient(groups, fitted, row["accuracy"], np.asarray(from_bits(row["knows"], images)))


def weighs(importance: str | None) -> bool:
    """Whether a score tells neurons apart."""
    return importance not in (None, UNIFORM)


def methods_of(config: Any) -> str:
    """All networks as `retrofit compare --methods` takes them: the average, every grouping without and with the fit, and what
    the run does without importance, if it weighs neurons.

    Args:
        config: a `RunConfig`, whose options each is told that it has.
    Raises:
        ValueError: one of them cannot be told to a comparison.
    """
    from retrofit_core.runs.options import options_of
    from retrofit_core.system.texts import written_options

    told = {name: value for name, value in (config.options or {}).items() if name not in SHARED_OPTIONS}
    own, words = told.pop("grouping", None), ["average"]
    every: list[tuple[str, Any, str, dict[str, Any]]] = [
        (method, groups, config.importance, extra)
        for groups in (own, *CONTROLS)
        for method, extra in ((WITHOUT_FIT[config.method], {"refit": False}), (config.method, {}))
    ]
    if weighs(config.importance):
        every.append((config.method, own, UNIFORM, {"importance": UNIFORM}))
    for method, groups, importance, extra in every:
        known = options_of(method, grouping=groups, importance=importance)
        chosen = {"grouping": groups} if groups else {}
        options = {**chosen, **{name: value for name, value in told.items() if name in known}, **extra}
        words.append("+".join([method.lower(), *written_options(options)]))
    if strange := [word for word in words if "," in word]:
        raise ValueError(f"a comparison does not take {strange[0]}.")
    return ",".join(words)


def base_of(config: Any) -> Any:
    """The `RunConfig` with the settings that all share.

    Args:
        config: of the run.
    """
    shared = {name: value for name, value in (config.options or {}).items() if name in SHARED_OPTIONS}
    plain = {"method": type(config).method, "importance": type(config).importance, "options": shared or None}
    return replace(config, evaluate=False, analyse=False, **plain)


def begin(entry: Entry) -> None:
    """Start the worker that measures them, unless it is at work already.

    Raises:
        Busy: other work is going on.
        ValueError: the runs folder cannot be written to, or an option of the run cannot be told to a comparison.
    """
    from retrofit_core.runs import RunConfig

    config, work = RunConfig.from_json(entry.config), work_of(entry)
    _, _, *words = shlex.split(base_of(config).command())
    words += ["--methods", methods_of(config), "--importance", config.importance]
    words += ["--also", str(entry.folder), "--out", str(work.folder)]
    worker.begin(worker.Job(work, tuple(words), entry.base, entry.folder.parent))
