"""Parameters of `retrofit reproduce` and `retrofit report`."""

from dataclasses import dataclass
from pathlib import Path

from ..runs.config import RunConfig
from ..system.settings import AT_LEAST_ONE, Range, same_as, setting
from .fields import Overwrite, argument


@dataclass(frozen=True, kw_only=True)
class TablesRequest:
    """Shared parameters."""

    tables: tuple[str, ...] = argument((), "{tables}, or all.")
    seeds: int | None = setting(
        None, "Number of fusion seeds for each set of parents. Default: set by the scale.", AT_LEAST_ONE
    )
    columns: str | None = setting(None, 'Columns, separated by semicolons, such as "2-way;4-way". Default: all.')
    model: tuple[Path, ...] = setting((), "A checkpoint to use instead of training a parent. Give it once per parent.")
    splits: Path | None = setting(None, "Splits file for the checkpoints of --model.")
    data: str = setting("cifar10", "Data set for the checkpoints of --model.")
    folder: Path = setting(Path("runs"), "Runs folder: parents, networks and results.")
    results: tuple[Path, ...] = setting(
        (), "More results, in addition to --folder: a bundle, a folder of bundles, or a runs folder. Repeatable."
    )


@dataclass(frozen=True, kw_only=True)
class ReproduceRequest(TablesRequest):
    """Parameters of `retrofit reproduce`."""

    scale: str | None = setting(None, "{scales}. Default: small, or all scales with --list.")
    methods: str | None = setting(
        None,
        'Only rows whose names begin with one of these words, separated by semicolons, such as "KF-Linear;LP". '
        "Default: all.",
    )
    parents: int = setting(
        1, "Number of sets of parents, each with its own split and training (seeds from 0).", AT_LEAST_ONE
    )
    time_budget: float | None = setting(
        None, "Stop after this many seconds. Run the same command again to resume.", Range(1)
    )
    jobs: int = setting(1, "Number of parallel processes.", AT_LEAST_ONE)
    backend: str = setting("loky", "loky (processes on this machine) or dask (a cluster).")
    scheduler: str | None = setting(None, "Address of a Dask scheduler, such as tcp://host:8786.")
    device: str = same_as(RunConfig, "device")
    plan: bool = setting(False, "Print what would be done, then exit.")
    list: bool = setting(False, "List the tables and how much of each is measured.")


@dataclass(frozen=True, kw_only=True)
class ReportRequest(Overwrite, TablesRequest):
    """Parameters of `retrofit report`."""

    scale: str | None = setting(
        None, "One or more, separated by commas. {scales}. Default: all scales that have results."
    )
    format: str = setting("markdown", "markdown or csv.")
    out: Path | None = setting(None, "Write the report to this file.")
    only_measured: bool = setting(False, "Omit everything without a result.")
    bundle: Path | None = setting(
        None,
        "Instead of a report, write the results of the named tables (default: all), without networks, to this folder: a file "
        "for each table. Results already in the folder are kept.",
    )
