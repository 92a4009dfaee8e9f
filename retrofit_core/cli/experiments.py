"""retrofit reproduce | report"""

from pathlib import Path
from typing import Annotated

import typer

from .fields import options_of, value_of
from .questions import Reproduction, Request
from .terminal import check_folder, command

Tables = Annotated[list[str] | None, typer.Argument(help="{tables}, or all.")]


@command("reproduce", *options_of(Reproduction))
def reproduce_command(
    context: typer.Context,
    tables: Tables = None,
    listing: Annotated[bool, typer.Option("--list", help="List the tables and what is measured of them.")] = False,
) -> None:
    """Measure the paper's tables: train what is missing, fuse, measure; what is measured, in --folder or --results, is not
    measured again.

    Example: `retrofit reproduce vgg11-noniid --scale small --columns 2-way`
    """
    asked = value_of(context, Reproduction, tables=tuple(tables or ()))
    if not listing:
        if not tables:
            raise ValueError("name a table, or all. `retrofit reproduce --list` shows them.")
        check_folder(asked.folder, "--folder")
    from . import measured, reproducing

    if listing:
        return measured.list_tables(asked.folder, list(map(Path, asked.results)), asked.scale)
    return reproducing.reproduce(asked)


@command("report", *options_of(Request))
def report_command(context: typer.Context, tables: Tables = None) -> None:
    """Print the paper's tables beside what was measured: differences, ranks, and which of its claims hold.

    Where neither --folder nor --results hold any, they are those that come with the project (in its folder). Results of
    checkpoints that were given to `reproduce` need the same options here, or a bundle that was written with them.

    Example: `retrofit report vgg11-noniid --format latex --out tables.tex`

    Keep results beside code: `retrofit report vgg11-noniid --bundle results --with-images`
    """
    from . import reproducing

    reproducing.print_report(value_of(context, Request, tables=tuple(tables or ())))
