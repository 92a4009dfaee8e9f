"""What each ingredient of a fusion contributes: the networks averaged, grouped without a fit, and fitted to controls' groups.

They are in a leaderboard in the run's folder, without records. No torch until a start.
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

#: Method -> the one that groups in the same way and can skip the fit.
WITHOUT_FIT = {
    "HF-Linear": "HF-Linear",
    "KF-Linear": "KF-Linear",
    "HF-Gradient": "HF-Linear",
    "KF-Gradient": "KF-Linear",
    "KF-Linear-KD": "KF-Linear",
}
#: Groupings that ignore what neurons compute.
CONTROLS = ("same_index", "random")
AVERAGE, OWN, UNWEIGHTED = "average", "own", "unweighted"
UNIFORM = "uniform"  # the score that weighs nothing
NAME = "ingredients"


@dataclass(frozen=True)
class Ingredient:
    """A network made with only some of the fused one's ingredients."""

    groups: str
    """AVERAGE, OWN (the run's), UNWEIGHTED (the run's, but every neuron counts alike), or one of CONTROLS"""
    fitted: bool
    accuracy: float
    knows: Any
    """(n,) bool, the test images it gets right"""

    def beyond(self, other: "Ingredient") -> tuple[float, tuple[float, float]]:
        """Its lead over another in points, and the paired 95 % interval."""
        return difference(self.knows, other.knows)


def work_of(entry: Entry) -> Work:
    """The leaderboard of a run's ingredients, which may not exist yet."""
    return Work(COMPARISON, entry.folder / COMPARISON.folder / NAME)


def has_some(entry: Entry) -> bool:
    """Whether a run has ingredients: several networks, grouped and fitted by a method of WITHOUT_FIT."""
    made = decided(entry)
    several = len(entry.config["models"]) > 1
    return several and entry.config["method"] in WITHOUT_FIT and made.get("refit", True) is not False


def read(work: Work) -> list[Ingredient]:
    """The measured ones, in no particular order; a grouping that cannot be applied to the networks has none.

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
    """All networks as `retrofit compare --methods` takes them: the average, every grouping without and with the fit, and the
    run's method without importance if the run weighs neurons.

    Args:
        config: a `RunConfig`; each method gets those of its options that it knows.
    Raises:
        ValueError: `compare` cannot take one of them.
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
    """The run's `RunConfig`, reduced to the settings that all share."""
    shared = {name: value for name, value in (config.options or {}).items() if name in SHARED_OPTIONS}
    plain = {"method": type(config).method, "importance": type(config).importance, "options": shared or None}
    return replace(config, evaluate=False, analyse=False, **plain)


def begin(entry: Entry) -> None:
    """Start the worker that measures them, unless it is already running.

    Raises:
        Busy: other work is running.
        ValueError: the runs folder is not writable, or `compare` cannot take an option of the run.
    """
    from retrofit_core.runs import RunConfig

    config, work = RunConfig.from_json(entry.config), work_of(entry)
    _, _, *words = shlex.split(base_of(config).command())
    words += ["--methods", methods_of(config), "--importance", config.importance]
    words += ["--also", str(entry.folder), "--out", str(work.folder), "--overwrite"]
    worker.begin(worker.Job(work, tuple(words), entry.base, entry.folder.parent))
