"""retrofit reproduce | report"""

from dataclasses import dataclass
from pathlib import Path

from ..runs.config import RunConfig
from ..system.settings import AT_LEAST_ONE, Range, same_as, setting
from .application import command
from .checks import check_folder
from .comparing import SweepRequest
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
    jobs: int = same_as(SweepRequest, "jobs")
    backend: str = same_as(SweepRequest, "backend")
    scheduler: str | None = same_as(SweepRequest, "scheduler")
    device: str = same_as(RunConfig, "device")
    plan: bool = setting(False, "Print what would be done, then exit.")
    list: bool = setting(False, "List the tables and how much of each is measured.")


@command("reproduce")
def reproduce_command(asked: ReproduceRequest) -> None:
    """Measure the paper's tables: train missing parents, fuse, evaluate. Results in --folder or --results are not
    measured again.

    Example: `retrofit reproduce vgg11-noniid --scale small --columns 2-way`
    """
    if not asked.list:
        if not asked.tables:
            raise ValueError("name a table, or all. `retrofit reproduce --list` shows them.")
        check_folder(asked.folder, "--folder")
    from . import reproducing

    return reproducing.list_tables(asked) if asked.list else reproducing.reproduce(asked)


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


@command("report")
def report_command(asked: ReportRequest) -> None:
    """Print the paper's tables next to our results: differences, ranks, and which of the paper's claims hold.

    If neither --folder nor --results contains results, the command uses those in the project's folder. To report on
    checkpoints that you gave to `reproduce`, repeat those options here, or use a bundle written with them.

    Example: `retrofit report vgg11-noniid --format csv --out tables.csv`

    To keep results with your code: `retrofit report vgg11-noniid --bundle results`
    """
    from . import reproducing

    reproducing.print_report(asked)
