"""What each ingredient of a fusion contributes: the networks averaged, and fused in their own and in random groups.

They are in a leaderboard in the run's folder, without records. No torch until a start.
"""

import shlex
from dataclasses import replace
from typing import Any

from retrofit_core.runs import worker
from retrofit_core.runs.store import COMPARISON, Work, read_json

from .methods import decided, score
from .records import Entry

#: Method -> the one that groups in the same way and can skip the fit.
WITHOUT_FIT = {
    "HF-Linear": "HF-Linear",
    "KF-Linear": "KF-Linear",
    "HF-Gradient": "HF-Linear",
    "KF-Gradient": "KF-Linear",
}
AVERAGE, RANDOM = "Average", "random"
NAME = "ingredients"
READING = (
    "Numbers in brackets: 95 % intervals, paired image by image. Random groups, one draw, ignore what the neurons do."
)


def work_of(entry: Entry) -> Work:
    """The leaderboard of a run's ingredients, which may not exist yet."""
    return Work(COMPARISON, entry.folder / COMPARISON.folder / NAME)


def has_some(entry: Entry) -> bool:
    """Whether a run has ingredients: several networks, grouped and fitted by a method of WITHOUT_FIT."""
    made = decided(entry)
    several = len(entry.config["models"]) > 1
    return several and entry.config["method"] in WITHOUT_FIT and made.get("refit", True) is not False


def read(entry: Entry) -> tuple[dict[tuple[bool, bool], Any], Any]:
    """The fusions' results, see `figures.ingredients.Corners`, and the plain average's; None if the networks have none.

    Raises:
        ValueError: the file is damaged.
    """
    board = read_json(work_of(entry).folder / COMPARISON.last)
    corners: dict[tuple[bool, bool], Any] = {}
    average = None
    try:
        for row in board["rows"]:
            facts = {"accuracy": row["accuracy"], "knows": row["knows"], "samples": board["samples"]}
            if row["method"] == AVERAGE:
                average = facts
            elif row["method"] and row["reason"] is None and row["importance"] == score(entry):
                own = decided(entry).get("grouping")
                if row["grouping"] in (None, RANDOM, own):
                    corners[row["grouping"] != RANDOM, (row["options"] or {}).get("refit") is not False] = facts
    except (KeyError, TypeError) as error:
        raise ValueError(f"{COMPARISON.last} of the ingredients cannot be read ({type(error).__name__}).") from error
    return corners, average


# --- measuring ------------------------------------------------------------------------------------


def methods_of(config: Any) -> str:
    """All networks as `retrofit compare --methods` takes them: the average, the run's grouping and a random one, without and
    with the fit.

    Args:
        config: a `RunConfig`, whose other options all share, see `base_of`.
    """
    own, method = (config.options or {}).get("grouping"), config.method
    words = [AVERAGE]
    for grouping in (f"+grouping={own}" if own else "", f"+grouping={RANDOM}"):
        words += [f"{WITHOUT_FIT[method]}{grouping}+refit=false", f"{method}{grouping}"]
    return ",".join(words).lower()


def base_of(config: Any) -> Any:
    """The run's `RunConfig`, reduced to the settings that all share."""
    shared = {name: value for name, value in (config.options or {}).items() if name != "grouping"}
    plain = {"method": type(config).method, "importance": type(config).importance, "options": shared}
    return replace(config, evaluate=False, analyse=False, **plain)


def begin(entry: Entry) -> None:
    """Start the worker that measures them, unless it is already running.

    Raises:
        Busy: other work is running.
        NotAllowed: the record names code that this server's user did not.
        ValueError: the runs folder is not writable.
    """
    from retrofit_core.networks import user_code
    from retrofit_core.runs import RunConfig

    config, work = RunConfig.from_json(entry.config), work_of(entry)
    for arch in (config.arch, config.target):  # a worker takes what its command line names as typed by the user
        user_code.require_allowed(arch)
    _, _, *words = shlex.split(base_of(config).command())
    words += ["--methods", methods_of(config), "--importance", config.importance]
    words += ["--out", str(work.folder), "--overwrite"]
    worker.begin(worker.Job(work, tuple(words), entry.base, entry.folder.parent))
