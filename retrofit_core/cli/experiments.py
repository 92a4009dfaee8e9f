"""retrofit reproduce | report"""

from pathlib import Path
from typing import Annotated

import typer

from ..runs.config import RunConfig
from .fields import options_of
from .terminal import check_folder, command

Tables = Annotated[list[str] | None, typer.Argument(help="{tables}, or all.")]
Folder = Annotated[Path, typer.Option(help="Runs folder: parents, networks and results.")]
Columns = Annotated[str | None, typer.Option(help='Columns separated by semicolons, as "2-way;4-way". Default: all.')]
Methods = Annotated[
    str | None,
    typer.Option(help='Rows whose names begin so, separated by semicolons, as "KF-Linear;LP". Default: all.'),
]
Seeds = Annotated[int | None, typer.Option(min=1, help="Fusions of the same parents. Default: the scale's.")]
Results = Annotated[
    list[Path] | None,
    typer.Option(help="A bundle, a folder of bundles, or a runs folder, beside --folder; repeatable."),
]
Models = Annotated[
    list[Path] | None, typer.Option("--model", help="A checkpoint in place of trained parents; once for each parent.")
]
Splits = Annotated[Path | None, typer.Option(help="Splits file of these checkpoints.")]


@command("reproduce", *options_of(RunConfig, "device"))
def reproduce_command(
    context: typer.Context,
    tables: Tables = None,
    scale: Annotated[str | None, typer.Option(help="{scales}. Default: small; with --list every one.")] = None,
    seeds: Seeds = None,
    columns: Columns = None,
    methods: Methods = None,
    models: Models = None,
    splits: Splits = None,
    data: Annotated[str, typer.Option(help="Data set of checkpoints that are given.")] = "cifar10",
    time_budget: Annotated[float | None, typer.Option(min=1, help="Seconds after which nothing goes on.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at once.")] = 1,
    backend: Annotated[str, typer.Option(help="loky: processes of this machine; dask: a cluster.")] = "loky",
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, as tcp://host:8786.")] = None,
    folder: Folder = Path("runs"),
    results: Results = None,
    plan_only: Annotated[bool, typer.Option("--plan", help="Say what would be done, and do nothing.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the tables and what is measured of them.")] = False,
) -> None:
    """Measure the paper's tables: train what is missing, fuse, measure; what is measured, in --folder or --results, is not
    measured again.

    Example: `retrofit reproduce vgg11-noniid --scale small --columns 2-way`
    """
    if not listing:
        if not tables:
            raise ValueError("name a table, or all. `retrofit reproduce --list` shows them.")
        check_folder(folder, "--folder")
    from . import measured, reproducing

    if listing or not tables:
        return measured.list_tables(folder, results or [], scale)
    return reproducing.reproduce(
        tables,
        scale or "small",
        seeds,
        columns,
        methods,
        reproducing.given_source(models, splits, data),
        time_budget,
        jobs,
        backend,
        scheduler,
        folder,
        context.params["device"],
        plan_only,
        results or [],
    )


@command("report")
def report_command(
    tables: Tables = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="One or several, separated by commas. {scales}. Default: each at which a column is measured."
        ),
    ] = None,
    seeds: Seeds = None,
    columns: Columns = None,
    models: Models = None,
    splits: Splits = None,
    data: Annotated[str, typer.Option(help="Data set of checkpoints that are given.")] = "cifar10",
    folder: Folder = Path("runs"),
    results: Results = None,
    layout: Annotated[str, typer.Option("--format", help="markdown, latex, csv.")] = "markdown",
    out_file: Annotated[Path | None, typer.Option("--out", help="Write the report into this file.")] = None,
    only_measured: Annotated[bool, typer.Option(help="Leave out what has no number.")] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(
            help="Write the results of the tables that are named (default: all results), without networks, and no report: "
            "into a file NAME.json, or into a folder with a file for each table, which keeps what it holds."
        ),
    ] = None,
    with_images: Annotated[
        bool, typer.Option(help="In the bundle: which test images each network knows, for paired intervals.")
    ] = False,
) -> None:
    """Print the paper's tables beside what was measured: differences, ranks, and which of its claims hold.

    Where neither --folder nor --results hold any, they are those that come with the project (in its folder). Results of
    checkpoints that were given to `reproduce` need the same options here, or a bundle that was written with them.

    Example: `retrofit report vgg11-noniid --format latex --out tables.tex`

    Keep results beside code: `retrofit report vgg11-noniid --bundle results --with-images`
    """
    from . import reproducing

    given = reproducing.given_source(models, splits, data)
    rest = (layout, out_file, only_measured, bundle, with_images)
    reproducing.print_report(tables, scale, seeds, columns, given, folder, results or [], *rest)
