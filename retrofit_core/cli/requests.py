"""What `retrofit reproduce` and `retrofit report` are asked; their work reads it, too."""

from dataclasses import dataclass
from pathlib import Path

from ..runs.config import RunConfig
from ..system.settings import AT_LEAST_ONE, Range, same_as, setting
from .fields import argument


@dataclass(frozen=True, kw_only=True)
class TablesRequest:
    """What is asked of the paper's tables."""

    tables: tuple[str, ...] = argument((), "{tables}, or all.")
    seeds: int | None = setting(None, "Fusions of the same parents. Default: the scale's.", AT_LEAST_ONE)
    columns: str | None = setting(None, 'Columns separated by semicolons, as "2-way;4-way". Default: all.')
    model: tuple[Path, ...] = setting((), "A checkpoint in place of trained parents; once for each parent.")
    splits: Path | None = setting(None, "Splits file of these checkpoints.")
    data: str = setting("cifar10", "Data set of checkpoints that are given.")
    folder: Path = setting(Path("runs"), "Runs folder: parents, networks and results.")
    results: tuple[Path, ...] = setting(
        (), "A bundle, a folder of bundles, or a runs folder, beside --folder; repeatable."
    )


@dataclass(frozen=True, kw_only=True)
class ReproduceRequest(TablesRequest):
    """What is asked of `retrofit reproduce`."""

    scale: str | None = setting(None, "{scales}. Default: small; with --list every one.")
    methods: str | None = setting(
        None, 'Rows whose names begin so, separated by semicolons, as "KF-Linear;LP". Default: all.'
    )
    time_budget: float | None = setting(None, "Seconds after which nothing goes on.", Range(1))
    jobs: int = setting(1, "Processes at once.", AT_LEAST_ONE)
    backend: str = setting("loky", "loky: processes of this machine; dask: a cluster.")
    scheduler: str | None = setting(None, "Address of a Dask scheduler, as tcp://host:8786.")
    device: str = same_as(RunConfig, "device")
    plan: bool = setting(False, "Say what would be done, and do nothing.")
    list: bool = setting(False, "List the tables and what is measured of them.")


@dataclass(frozen=True, kw_only=True)
class ReportRequest(TablesRequest):
    """What is asked of `retrofit report`."""

    scale: str | None = setting(
        None, "One or several, separated by commas. {scales}. Default: each at which a column is measured."
    )
    format: str = setting("markdown", "markdown, latex, csv.")
    out: Path | None = setting(None, "Write the report into this file.")
    only_measured: bool = setting(False, "Leave out what has no number.")
    bundle: Path | None = setting(
        None,
        "Write the results of the tables that are named (default: all results), without networks, and no report: "
        "into a file NAME.json, or into a folder with a file for each table, which keeps what it holds.",
    )
    with_images: bool = setting(False, "In the bundle: which test images each network knows, for paired intervals.")
