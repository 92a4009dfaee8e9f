"""What each ingredient of a fusion contributes: the networks averaged, grouped without a fit, and fitted to controls' groups.

They are in a leaderboard in the run's folder, without records. No torch until a start.
"""

import shlex
from dataclasses import dataclass, replace
from typing import Any

from retrofit_app.figures import difference
from retrofit_app.figures.waterfall import Step
from retrofit_app.figures.words import first_up, signed
from retrofit_core.runs import worker
from retrofit_core.runs.store import COMPARISON, Work, read_json

from .methods import decided
from .records import Entry

#: Method -> the one that groups in the same way and can skip the fit.
WITHOUT_FIT = {
    "HF-Linear": "HF-Linear",
    "KF-Linear": "KF-Linear",
    "HF-Gradient": "HF-Linear",
    "KF-Gradient": "KF-Linear",
}
#: Groupings that ignore what neurons compute.
CONTROLS = ("same_index", "random")
AVERAGE, OWN, UNWEIGHTED = "average", "own", "unweighted"
UNIFORM = "uniform"  # the score that weighs nothing
NAME = "ingredients"
#: Controls in words.
NAMES = {
    "same_index": "same-index groups",
    "random": "random groups (one draw)",
    UNWEIGHTED: "uniform importance",
}
GROUPS, SAME_INDEX, RANDOM = "+ groups, no fit", first_up(NAMES["same_index"]), first_up(NAMES["random"])
READING = (
    "Lines at the bars' ends: 95 % intervals, paired image by image. A step is compared with the row above, a control (hatched) "
    "with the fused network. A control has the same fit; its groups ignore what the neurons do, or every neuron counts alike "
    "(uniform importance)."
)


@dataclass(frozen=True)
class Ingredient:
    """A network made with only some of the fused one's ingredients."""

    groups: str
    """AVERAGE, OWN (the run's), UNWEIGHTED (the run's, but every neuron counts alike), or one of CONTROLS"""
    fitted: bool
    facts: dict[str, Any]
    """Its result: accuracy, knows and samples, see `figures.difference`"""


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
    return Ingredient(groups, fitted, {"accuracy": row["accuracy"], "knows": row["knows"], "samples": images})


# --- in pictures and words -----------------------------------------------------------------------


def steps_of(known: list[Ingredient], method: str) -> list[Step]:
    """The waterfall's rows: average, groups, fit, controls, as far as they apply to the networks."""
    found = {(each.groups, each.fitted): each for each in known}
    path = [
        (name, found[key])
        for name, key in (
            ("Plain average", (AVERAGE, False)),
            (GROUPS, (OWN, False)),
            (f"+ fit: {method}", (OWN, True)),
        )
        if key in found
    ]
    before = [None, *(each for _, each in path)]
    steps = [
        Step(
            name,
            above.facts["accuracy"] if above else 0.0,
            each.facts["accuracy"],
            difference(each.facts, above.facts) if above else None,
        )
        for (name, each), above in zip(path, before, strict=False)
    ]
    fused = found.get((OWN, True))
    for groups in NAMES:
        if fused and (control := found.get((groups, True))):
            without = found.get((groups, False))
            steps.append(
                Step(
                    first_up(NAMES[groups]),
                    0.0,
                    control.facts["accuracy"],
                    difference(control.facts, fused.facts),
                    control=True,
                    unfitted=without and without.facts["accuracy"],
                )
            )
    return steps


def finding(steps: list[Step]) -> str:
    """What groups and fit contribute, and what random groups change."""
    gains = [step for step in steps if step.brings and not step.control]
    if not gains:
        return ""
    first, beside = "Groups and fit together bring", ""
    if gains[0].name == GROUPS:
        first = "Groups bring"  # the average has no importance weights; those of same-index groups are part of the gain
        plain = [step.unfitted - steps[0].accuracy for step in steps if step.name == SAME_INDEX and step.unfitted]
        beside = "".join(f" (same-index groups {signed(points)})" for points in plain)
    said = (
        f"{first} {_gain(gains[0], ' points')}{beside}{''.join(f', then the fit {_gain(step)}' for step in gains[1:])}"
    )
    drawn = [f"; random groups instead: {_gain(step)}" for step in steps if step.name == RANDOM]
    return f"{said}{''.join(drawn)}."


def _gain(step: Step, unit: str = "") -> str:
    brings = step.brings
    return "" if brings is None else f"{signed(brings.points)}{unit}{'' if brings.clear else ' (may be chance)'}"


# --- measuring ------------------------------------------------------------------------------------


def weighs(importance: str | None) -> bool:
    """Whether a score tells neurons apart."""
    return importance not in (None, UNIFORM)


def methods_of(config: Any) -> str:
    """All networks as `retrofit compare --methods` takes them: the average, every grouping without and with the fit, and the
    run's method without importance if the run weighs neurons.

    Args:
        config: a `RunConfig`, whose other options all share, see `base_of`.
    """
    own, method = (config.options or {}).get("grouping"), config.method
    groupings = [f"+grouping={grouping}" if grouping else "" for grouping in (own, *CONTROLS)]
    words = ["average"]
    for grouping in groupings:
        words += [f"{WITHOUT_FIT[method]}{grouping}+refit=false", f"{method}{grouping}"]
    if weighs(config.importance):
        words.append(f"{method}{groupings[0]}+importance={UNIFORM}")
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
        ValueError: the runs folder is not writable.
    """
    from retrofit_core.runs import RunConfig

    config, work = RunConfig.from_json(entry.config), work_of(entry)
    _, _, *words = shlex.split(base_of(config).command())
    words += ["--methods", methods_of(config), "--importance", config.importance]
    words += ["--out", str(work.folder), "--overwrite"]
    worker.begin(worker.Job(work, tuple(words), entry.base, entry.folder.parent))
