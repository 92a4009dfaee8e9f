"""Parameters of `retrofit reproduce` and `retrofit report`."""

from dataclasses import dataclass
from pathlib import Path

from ..runs.config import RunConfig
from ..system.settings import AT_LEAST_ONE, Range, same_as, setting
from .fields import argument


@dataclass(frozen=True, kw_only=True)
class TablesRequest:
    """Shared parameters."""

    tables: tuple[str, ...] = argument((), "{tables}, or all.")
    seeds: int | None = setting(
        None, "Number of fusions of the same parents, each with its own seed. Default: the scale's.", AT_LEAST_ONE
    )
    columns: str | None = setting(None, 'Columns separated by semicolons, such as "2-way;4-way". Default: all.')
    model: tuple[Path, ...] = setting((), "A checkpoint to take in place of trained parents; once for each parent.")
    splits: Path | None = setting(None, "Splits file of these checkpoints.")
    data: str = setting("cifar10", "Data set of these checkpoints.")
    folder: Path = setting(Path("runs"), "Runs folder: parents, networks and results.")
    results: tuple[Path, ...] = setting(
        (), "A bundle, a folder of bundles, or a runs folder, beside --folder; repeatable."
    )


@dataclass(frozen=True, kw_only=True)
class ReproduceRequest(TablesRequest):
    """Parameters of `retrofit reproduce`."""

    scale: str | None = setting(None, "{scales}. Default: small; with --list every one.")
    methods: str | None = setting(
        None, 'Rows whose names begin with these words, separated by semicolons, such as "KF-Linear;LP". Default: all.'
    )
    parents: int = setting(
        1, "Number of sets of parents, each with a split and trainings of its own (seeds from 0 on).", AT_LEAST_ONE
    )
    time_budget: float | None = setting(None, "Seconds after which the work stops; the same command goes on.", Range(1))
    jobs: int = setting(1, "Number of processes that work at the same time.", AT_LEAST_ONE)
    backend: str = setting("loky", "loky: processes of this machine; dask: a cluster.")
    scheduler: str | None = setting(None, "Address of a Dask scheduler, such as tcp://host:8786.")
    device: str = same_as(RunConfig, "device")
    plan: bool = setting(False, "Say what would be done, and do nothing.")
    list: bool = setting(False, "List the tables and what is measured of them.")


@dataclass(frozen=True, kw_only=True)
class ReportRequest(TablesRequest):
    """Parameters of `retrofit report`."""

    scale: str | None = setting(
        None, "One or several, separated by commas. {scales}. Default: each at which a column is measured."
    )
    format: str = setting("markdown", "markdown, latex or csv.")
    out: Path | None = setting(None, "Write the report into this file.")
    only_measured: bool = setting(False, "Leave out what has no number.")
    bundle: Path | None = setting(
        None,
        "Write the results of the tables that are named (default: all results), without networks, and no report: "
        "into a file NAME.json, or into a folder with a file for each table, which keeps what it holds.",
    )
    with_images: bool = setting(
        False, "Also store in the bundle which test images each network gets right, for paired intervals."
    )
