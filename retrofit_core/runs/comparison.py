"""Leaderboards of checkpoints: the runs of a comparison, with records to resume."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Images
from ..data.sampling import balanced
from ..methods import METHODS
from ..networks import user_code
from ..system.monitor import Monitor
from ..system.registry import find
from ..system.settings import Setting, settings_of
from ..system.texts import names_apart, read_value
from . import RunConfig, execute, read_inputs, record_folder
from .config import choice_of, title_of
from .execute import Measurements
from .inputs import check_choices, read_images, train_missing
from .leaderboard import Entrant, Leaderboard, Made, Measure, method_variants, rank
from .spread import spread
from .store import STATUS, read_json

#: Settings that, like options, go only to methods that have them.
STYLE = ("memory", "base")
#: Settings that all runs of a comparison share.
SAME = ("models", "data", "arch", "mean", "std", "size", "splits", "device")
DEFAULT = {field.name: field.default for field in dataclasses.fields(RunConfig)}


def configurations(base: RunConfig, methods: str, importance: str) -> list[RunConfig]:
    """The runs of a comparison: each method with each importance; methods without importance once.

    Args:
        base: the common settings; options, memory and base are dropped for methods without them, and the analysis for
            methods without levels.
        methods, importance: see `method_variants`.
    Raises:
        ValueError: unknown method, option or importance.
    """
    configs = []
    for method, score, options in method_variants(methods, importance):
        keywords = method.keywords({**options, "importance": score or RunConfig.importance})
        settings: dict[str, Any] = {name: DEFAULT[name] for name in STYLE if name not in keywords}
        settings["analyse"] = base.analyse and method.takes.analysis  # otherwise there are no levels
        shared = {name: value for name, value in (base.options or {}).items() if name in keywords}
        settings |= {"method": method.name, "importance": score or RunConfig.importance}
        configs.append(dataclasses.replace(base, **settings, options={**shared, **options}))
        check_choices(configs[-1])
    return list({config.key(): config for config in configs}.values())


def compare_runs(
    configs: Sequence[RunConfig] | Mapping[str, RunConfig],
    *,
    seeds: int = 1,
    images: int | None = None,
    records: str | Path | None = None,
    out: str | Path | None = None,
    with_parents: bool = True,
    jobs: int = 1,
    monitor: Monitor | None = None,
) -> Leaderboard:
    """Run every config, and measure the networks on the same test images.

    Args:
        configs: with the same parents and data, see `configurations`; or by the names of their rows.
        seeds: run each with so many seeds, from its own on.
        images: number of test images, balanced over the classes (default: all).
        records: folder for the runs' records, see `runs.record_folder`; runs finished there with the current checkpoints
            and data are not repeated.
        out: folder to save the leaderboard to after every row.
        with_parents: whether the parents have rows, too.
        jobs: number of processes that make records, see `spread`; with records alone.
    Raises:
        ValueError: no configs, configs of different parents or data, or unreadable inputs. A method that does not apply to
            the parents becomes a row with the reason.
        Cancelled: on request; finished records stay.
    """
    monitor = monitor or Monitor()
    if not isinstance(configs, Mapping):
        configs = dict(zip(names_apart(map(title, configs)), configs, strict=True))
    if not configs:
        raise ValueError("nothing to compare: name at least one method.")
    first = next(iter(configs.values()))
    for name in SAME:
        if len({str(getattr(config, name)) for config in configs.values()}) > 1:
            raise ValueError(f"a comparison needs the same {name} in all runs.")
    train_missing(first, monitor)
    test, rows, parents = _inputs(first, images)
    measurements = Measurements()

    def located(config: RunConfig) -> tuple[RunConfig, Path | None]:
        return config, record_folder(records, config) if records else None

    def fusion(config: RunConfig, folder: Path | None) -> Made:
        measurements.fused = None
        result, _ = execute(config, folder, monitor, measurements)
        outputs = None if measurements.fused is None else measurements.fused[rows]  # if this run measured them
        return Made(result.model, result.seconds, outputs, choice_of(result.config))

    runs = {
        name: [located(dataclasses.replace(config, seed=config.seed + k)) for k in range(seeds)]
        for name, config in configs.items()
    }
    if records and jobs > 1:
        _record_in_parallel([run for several in runs.values() for run in several], records, jobs, monitor)
    entrants: list[Entrant] = [
        (_row(name, several), [partial(fusion, *run) for run in several]) for name, several in runs.items()
    ]
    networks = {f"parent {index}": parent for index, parent in enumerate(parents)} if with_parents else {}
    measure = Measure(test, rows, monitor=monitor)
    for rows_so_far in rank(networks, entrants, measure, device=first.device, monitor=monitor):
        board = Leaderboard(rows_so_far, measure.classes, test.name, len(rows))
        if out is not None:
            board.save(out)
    return board


def _row(name: str, runs: Sequence[tuple[RunConfig, Path | None]]) -> dict[str, Any]:
    """A row of a leaderboard without measurements."""
    config = runs[0][0]
    options = dict(config.options or {})
    keys = [folder.name if folder else config.key() for config, folder in runs]
    row = {"name": name, "method": config.method, "grouping": options.pop("grouping", None)}
    return row | {"importance": _score(config), "options": options or None, "key": keys[0], "runs": keys}


def title(config: RunConfig) -> str:
    """A run in words, with its importance if it takes one."""
    return title_of(config.method, _score(config), config.options)


def _inputs(config: RunConfig, images: int | None) -> tuple[Images, Tensor, list[nn.Module]]:
    test = read_images(config, "test")
    rows = torch.arange(len(test)) if images is None else balanced(test.labels, images)
    common = {name: getattr(config, name) for name in (*SAME, "samples", "fusion_from")}
    plain = RunConfig(**common, method="KF-Linear")  # which reads no data of the parents
    return test, rows, read_inputs(plain).models


def _score(config: RunConfig) -> str | None:
    return config.importance if METHODS[config.method].takes.importance else None


def _record_in_parallel(runs: Sequence[tuple[RunConfig, Any]], root: str | Path, jobs: int, monitor: Monitor) -> None:
    """Make missing records in several processes. What fails or is busy is left missing, so that `execute` says why."""
    missing = [(config, folder) for config, folder in runs if read_json(folder / STATUS).get("state") != "done"]
    tasks = [partial(_record, config, folder.absolute()) for config, folder in missing]
    for count, _ in enumerate(spread(tasks, root, jobs=jobs, device=runs[0][0].device), 1):
        monitor.emit("phase", name=f"{count} of {len(tasks)} runs are made", index=count, total=len(tasks))
        monitor.check()


def _record(config: RunConfig, folder: Path, device: str) -> None:
    if device.startswith("cuda:"):
        torch.cuda.set_device(device)  # the one that "auto" picks; the record does not name it
    with suppress(Exception):
        for arch in (config.arch, config.target):  # which the command line named
            user_code.allow(arch)
        execute(config, folder)


# --- sweeps -------------------------------------------------------------------------------------------------

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


def swept(base: RunConfig, text: str, seeds: int = 1) -> dict[str, RunConfig]:
    """A run with one of its `numeric_settings` at three to nine values, by the names of their rows; all are evaluated.

    Args:
        text: such as "ridge=0.01x,0.1x,1x": numbers, or all multiples where the setting takes them.
        seeds: runs of each value, see `compare_runs`.
    Raises:
        ValueError: a setting that the method does not have, or values or a number of seeds that it does not take.
    """
    name, sign, words = text.partition("=")
    if not sign or not name:
        raise ValueError(f"--over {text!r}: write a setting and its values, as in --over ridge=0.01x,0.1x,1x.")
    over = name.strip().replace("-", "_")
    values = [read_value(word) for word in words.replace(" ", "").split(",")]
    entry = find(numeric_settings(base), over, "numeric setting")
    if not LEAST <= len(set(values)) == len(values) <= MOST:
        raise ValueError(
            f"a sweep takes {LEAST} to {MOST} different values. Found {len(values)} for {over}. Separate them by commas."
        )
    for value in values:
        if isinstance(value, bool) or not entry.takes(value) or not re.fullmatch(NUMBER, str(value)):
            raise ValueError(f"{over} is {value!r}. Use numbers: {entry.description}.")
    if len({isinstance(value, str) for value in values}) > 1:
        raise ValueError(f"{over} is a number in some values and a multiple in others. Write all in one way.")
    if over == "seed" and seeds > 1:
        raise ValueError("a sweep over the seed has one run for each value. Take one seed.")
    configs = {}
    for value in sorted(values, key=lambda value: float(str(value).removesuffix("x"))):
        change = {over: value} if over in OF_RUNS else {"options": {**(base.options or {}), over: value}}
        configs[f"{over} {value}"] = config = dataclasses.replace(base, evaluate=True, **change)
        check_choices(config)
    return configs
