"""Leaderboards of checkpoints: the runs of a comparison, with records to resume."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Images
from ..data.sampling import balanced
from ..fusion.results import FusionResult
from ..methods import METHODS
from ..system.monitor import Monitor
from ..system.texts import names_apart
from . import RunConfig, execute, read_inputs, read_run, record_folder
from .config import choice_of, title_of
from .execute import Measurements
from .inputs import check_choices, read_images, train_missing
from .leaderboard import Entrant, Leaderboard, Made, Measure, method_variants, rank

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
    make: Callable[[Sequence[tuple[RunConfig, Path]]], None] | None = None,
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
        make: makes the records of runs beforehand, such as in parallel, in these folders.
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
        if folder and (folder / "config.json").exists() and read_run(folder).state == "done":
            result = FusionResult.load(folder)
        else:
            result, _ = execute(config, folder, monitor, measurements)
        outputs = None if measurements.fused is None else measurements.fused[rows]  # if this run measured them
        return Made(result.model, result.seconds, outputs, choice_of(result.config))

    runs = {
        name: [located(dataclasses.replace(config, seed=config.seed + k)) for k in range(seeds)]
        for name, config in configs.items()
    }
    if make:
        make([(config, folder) for several in runs.values() for config, folder in several if folder])
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
