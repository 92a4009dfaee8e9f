"""Leaderboards of checkpoints: the runs of a comparison, with records to resume."""

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Images
from ..data.sampling import balanced
from ..fusion.results import FusionResult
from ..methods import METHODS
from ..networks import user_code
from ..networks.checkpoints import read_tensors
from ..system.files import digest
from ..system.monitor import Monitor
from . import Identity, RunConfig, execute, of_network, read_identity, read_inputs, read_run, record_folder
from .config import title_of
from .execute import Measurements
from .identities import first_alike
from .inputs import check_choices, read_images
from .leaderboard import Entrant, Leaderboard, Made, Measure, choice_of, chosen_methods, rank

#: Settings that, like options, go only to methods that have them.
STYLE = ("memory", "base")
#: Settings that all runs of a comparison share.
SAME = ("models", "data", "arch", "mean", "std", "size", "splits", "device")
DEFAULT = {field.name: field.default for field in dataclasses.fields(RunConfig)}


def configurations(base: RunConfig, methods: str, importance: str, *, norms: bool = False) -> list[RunConfig]:
    """The runs of a comparison: each method with each importance; methods without importance once.

    Args:
        base: the common settings; options, memory and base are dropped for methods without them, and the analysis for
            methods without levels.
        methods, importance, norms: see `chosen_methods`.
    Raises:
        ValueError: unknown method, option or importance.
    """
    configs = []
    for method, score, options in chosen_methods(methods, importance, norms=norms):
        keywords = method.keywords({**options, "importance": score or RunConfig.importance})
        settings: dict[str, Any] = {name: DEFAULT[name] for name in STYLE if name not in keywords}
        settings["analyse"] = base.analyse and method.takes.analysis  # otherwise there are no levels
        shared = {name: value for name, value in (base.options or {}).items() if name in keywords}
        settings |= {"method": method.name, "importance": score or RunConfig.importance}
        configs.append(dataclasses.replace(base, **settings, options={**shared, **options}))
        check_choices(configs[-1])
    return list({config.key(): config for config in configs}.values())


def has_norms(path: str | Path) -> bool:
    """Whether a checkpoint holds BatchNorm statistics; False if it cannot be read, which its run reports. An unchanged file is
    read once per process."""
    with contextlib.suppress(OSError, ValueError):
        return _holds_norms(Path(path), digest(path))
    return False


@cache
def _holds_norms(path: Path, content: str) -> bool:
    return any(name.endswith("running_mean") for name in read_tensors(path))


def quick_first(configs: Iterable[RunConfig]) -> list[RunConfig]:
    """Sort by work, so that a leaderboard fills quickly: methods without levels first, and in both groups training last."""

    def effort(config: RunConfig) -> tuple[bool, bool]:
        method = METHODS[config.method]
        return method.takes.levels, any(name.endswith("epochs") for name in method.keywords())

    return sorted(configs, key=effort)


def compare_runs(
    configs: Sequence[RunConfig],
    *,
    images: int | None = None,
    records: str | Path | None = None,
    also: Iterable[str | Path] = (),
    out: str | Path | None = None,
    monitor: Monitor | None = None,
) -> Leaderboard:
    """Run every config, quick methods first, and measure the networks on the same test images.

    Args:
        configs: with the same parents and data, see `configurations`.
        images: number of test images, balanced over the classes (default: all).
        records: folder for the runs' records, see `runs.record_folder`; runs finished there with the current checkpoints
            and data are not repeated.
        also: further finished records; one of the same work replaces a new run.
        out: folder to save the leaderboard to after every row.
    Raises:
        ValueError: no configs, configs of different parents or data, or unreadable inputs. A method that does not apply to
            the parents becomes a row with the reason.
        Cancelled: on request; finished records stay.
    """
    monitor = monitor or Monitor()
    if not configs:
        raise ValueError("nothing to compare: name at least one method.")
    for name in SAME:
        if len({str(getattr(config, name)) for config in configs}) > 1:
            raise ValueError(f"a comparison needs the same {name} in all runs.")
    test, rows, parents = _inputs(configs[0], images)
    finished, measurements = finished_records(also), Measurements()

    def entrant(config: RunConfig) -> Entrant:
        options = dict(config.options or {})
        row = {
            "name": title(config),
            "method": config.method,
            "grouping": options.pop("grouping", None),
            "importance": _taken(config),
            "options": options or None,
            "key": config.key(),
        }

        def fuse() -> Made:
            folder = first_alike(config, finished, part=of_network) or (
                record_folder(records, config) if records else None
            )
            row["key"] = folder.name if folder else config.key()
            measurements.fused = None
            if folder and (folder / "config.json").exists() and read_run(folder).state == "done":
                result = FusionResult.load(folder)
            else:
                result, _ = execute(config, folder, monitor, measurements)
            outputs = measurements.fused  # if this run measured them
            outputs = None if outputs is None else outputs[rows]
            return Made(result.model, result.seconds, outputs, choice_of(result))

        return row, [fuse]

    measure = Measure(test, rows, monitor=monitor)
    networks = {f"parent {index}": parent for index, parent in enumerate(parents)}
    entrants = [entrant(config) for config in quick_first(configs)]
    for ranking in rank(networks, entrants, measure, device=configs[0].device, monitor=monitor):
        board = Leaderboard(ranking, measure.classes, test.name, len(rows))
        if out is not None:
            board.save(out)
    return board


def title(config: RunConfig) -> str:
    """A run in words, with its importance if it takes one."""
    return title_of(config.method, _taken(config), config.options)


def _inputs(config: RunConfig, images: int | None) -> tuple[Images, Tensor, list[nn.Module]]:
    test = read_images(config, "test")
    if images is not None and not 1 <= images <= len(test):
        raise ValueError(
            f"images={images} (--images): data set {test.name!r} has {len(test)} test images. Take 1 to {len(test)} of them, "
            "or all by leaving it out."
        )
    rows = torch.arange(len(test)) if images is None else balanced(test.labels, images)
    common = {name: getattr(config, name) for name in (*SAME, "samples", "fusion_from")}
    plain = RunConfig(**common, method="KF-Linear")  # which reads no data of the parents
    user_code.allow(config.target)  # finished runs load the networks they contain
    return test, rows, read_inputs(plain).models


def finished_records(also: Iterable[str | Path]) -> list[tuple[Path, Identity]]:
    """Folders with a readable finished record and known files."""
    found = []
    for folder in map(Path, also):
        with contextlib.suppress(ValueError):
            if read_run(folder).state == "done":
                found.append((folder, read_identity(folder)))
    return found


def _taken(config: RunConfig) -> str | None:
    return config.importance if METHODS[config.method].takes.importance else None
