"""Parameters of `retrofit reproduce`, some of which `retrofit compare` shares."""

from dataclasses import dataclass
from pathlib import Path

from ..runs.config import RunConfig
from ..system.settings import AT_LEAST_ONE, same_as, setting
from .fields import argument


@dataclass(frozen=True, kw_only=True)
class ReproduceRequest:
    """Parameters of `retrofit reproduce`."""

    tables: tuple[str, ...] = argument((), "Names of tables, or all. Without a name, the command says which there are.")
    scale: str | None = setting(
        None,
        "smoke, small, evening or paper (docs/experiments.md). Default: small; with --report, each row at its fullest "
        "measured scale.",
    )
    columns: str | None = setting(None, 'Columns, separated by semicolons, such as "2-way;4-way". Default: all.')
    methods: str | None = setting(
        None,
        'Only rows whose names begin with one of these words, separated by semicolons, such as "KF-Linear;LP". '
        "Default: all.",
    )
    seeds: int | None = setting(
        None, "Number of fusion seeds for each set of parents. Default: set by the scale.", AT_LEAST_ONE
    )
    parents: int = setting(
        1, "Number of sets of parents, each with its own split and training (seeds from 0).", AT_LEAST_ONE
    )
    folder: Path = setting(Path("runs"), "Runs folder: parents, networks and results.")
    results: tuple[Path, ...] = setting(
        (), "More results, in addition to --folder: a file of results, a folder of them, or a runs folder. Repeatable."
    )
    jobs: int = setting(1, "Number of parallel processes.", AT_LEAST_ONE)
    device: str = same_as(RunConfig, "device")
    report: bool = setting(False, "Print what is measured, and measure nothing.")
