"""Leaderboards of checkpoints: the runs of a comparison, with records to resume."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..data import check_images
from ..methods import METHODS
from ..networks import user_code
from ..system.device import on_device
from ..system.monitor import Monitor
from ..system.settings import check_setting, settings_of
from ..system.texts import names_apart, read_value
from . import RunConfig, execute, record_folder
from .answers import from_bits
from .config import choice_of, title_of
from .execute import measured_references
from .grid import grid
from .inputs import check_choices, check_fitting, read_images, read_parents, train_missing
from .leaderboard import SCORES, Entrant, Leaderboard, Measured, costs, method_variants, rank

#: Settings that all runs of a comparison share.
SAME = ("models", "data", "arch", "mean", "std", "size", "splits", "device")


def configurations(base: RunConfig, methods: str, importance: str) -> list[RunConfig]:
    """The runs of a comparison: each method with each importance; methods without importance once.

    Args:
        base: the common settings; options are dropped for methods without them, and the analysis for
            methods without levels.
        methods, importance: see `method_variants`.
    Raises:
        ValueError: unknown method, option or importance.
    """
    configs = []
    for method, score, options in method_variants(methods, importance):
        keywords = method.keywords({**options, "importance": score or RunConfig.importance})
        settings: dict[str, Any] = {"method": method.name, "importance": score or RunConfig.importance}
        settings["analyse"] = base.analyse and method.takes.analysis  # otherwise there are no levels
        shared = {name: value for name, value in (base.options or {}).items() if name in keywords}
        configs.append(dataclasses.replace(base, **settings, options={**shared, **options}))
        check_choices(configs[-1])
    return list({config.key(): config for config in configs}.values())


def compare_runs(
    configs: Sequence[RunConfig] | Mapping[str, RunConfig],
    *,
    seeds: int = 1,
    records: str | Path | None = None,
    out: str | Path | None = None,
    with_parents: bool = True,
    jobs: int = 1,
    monitor: Monitor | None = None,
) -> Leaderboard:
    """Run and evaluate every config, and rank the networks by their answers to the same test images.

    Args:
        configs: with the same parents and data, see `configurations`; or by the names of their rows.
        seeds: run each with so many seeds, from its own on.
        records: folder for the runs' records, see `runs.record_folder`; runs finished there with the current checkpoints
            and data are not repeated.
        out: folder to save the leaderboard to after every row.
        with_parents: whether the parents have rows, too.
        jobs: number of processes that make records, see `grid`; with records alone.
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
    train, test = read_images(first, "train"), read_images(first, "test")
    models = read_parents(first, train)
    check_fitting(models, train)
    check_images(test, monitor=monitor)
    references, example = measured_references(models, test, first.device, monitor), test.inputs([0])

    def measured(network: nn.Module, facts: dict[str, Any], seconds: float | None, chose: str) -> Measured:
        scores = {score: facts[score] for score in SCORES}
        answers = from_bits(facts["knows"], len(test))
        return Measured(answers, scores | costs(on_device(network, first.device), example, seconds), chose)

    def fusion(config: RunConfig, folder: Path | None) -> Measured:
        result, metrics = execute(config, folder, monitor, references)
        facts = metrics["networks"]["fused"]
        return measured(result.model, facts, result.seconds, choice_of(result.config))

    runs = {
        name: [
            _located(dataclasses.replace(config, seed=config.seed + k, evaluate=True), records) for k in range(seeds)
        ]
        for name, config in configs.items()
    }
    if records and jobs > 1:
        tasks = [partial(_record, *run) for several in runs.values() for run in several]
        for count, _ in enumerate(grid(tasks, records, jobs=jobs, device=first.device, monitor=monitor), 1):
            monitor.emit("phase", name=f"{count} of {len(tasks)} runs are made", index=count, total=len(tasks))
    entrants: list[Entrant] = [
        (_row(name, several), [partial(fusion, *run) for run in several]) for name, several in runs.items()
    ]
    named = {f"parent {index}": model for index, model in enumerate(models)} if with_parents else {}
    parents = {name: measured(model, references[name], None, "") for name, model in named.items()}
    for rows in rank(parents, entrants, monitor):
        board = Leaderboard(rows, list(test.classes), test.name, len(test))
        if out is not None:
            board.save(out)
    return board


def _located(config: RunConfig, records: str | Path | None) -> tuple[RunConfig, Path | None]:
    return config, record_folder(records, config).absolute() if records else None


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


def _score(config: RunConfig) -> str | None:
    return config.importance if METHODS[config.method].takes.importance else None


def _record(config: RunConfig, folder: Path, monitor: Monitor, device: str) -> None:
    """Make a missing record. What fails or is busy is left missing, so that the next `execute` says why."""
    if device.startswith("cuda:"):
        torch.cuda.set_device(device)  # the one that "auto" picks; the record does not name it
    for arch in (config.arch, config.target):  # which the command line named
        user_code.allow(arch)
    execute(config, folder, monitor)


def swept(base: RunConfig, text: str, seeds: int = 1) -> dict[str, RunConfig]:
    """A run with one of its settings at several values, by the names of their rows; all are evaluated.

    Args:
        text: a setting of the run or its method and its values, such as "ridge=0.01x,0.1x,1x".
        seeds: runs of each value, see `compare_runs`.
    Raises:
        ValueError: a setting that the method does not have, or values or a number of seeds that it does not take.
    """
    name, _, words = text.partition("=")
    over, own = name.strip().replace("-", "_"), settings_of(RunConfig)
    values = [read_value(word) for word in dict.fromkeys(words.replace(" ", "").split(","))]
    if not over or len(values) < 2:
        raise ValueError(f"--over {text!r}: write a setting and its values, as in --over ridge=0.01x,0.1x,1x.")
    if over == "seed" and seeds > 1:
        raise ValueError("a sweep over the seed has one run for each value. Take one seed.")
    configs = {}
    for value in values:
        if over in own:
            check_setting(own[over], value)
        change = {over: value} if over in own else {"options": {**(base.options or {}), over: value}}
        configs[f"{over} {value}"] = config = dataclasses.replace(base, evaluate=True, **change)
        check_choices(config)
    return configs
