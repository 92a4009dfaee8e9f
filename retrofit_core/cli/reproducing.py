"""The work of `retrofit reproduce`."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import typer

from ..experiments.cells import Table
from ..experiments.report import markdown, report
from ..experiments.results import Result, results_of
from ..experiments.scales import BEST_FIRST, scale_of
from ..experiments.tables import TABLES
from ..system.registry import find, known_name
from .requests import ReproduceRequest
from .terminal import advised, err, out, say, units_progress

SOME_FAILED = 1
SCALE = "small"
#: Results shipped with the project, relative to its folder.
SHIPPED = Path("benchmarks/results/experiments")


def _measured(request: ReproduceRequest, names: Iterable[str]) -> dict[str, list[Result]]:
    """Results by table, in the runs folder and in `results`; the shipped ones if there are none and `results` is empty."""
    here = {name: results_of(name, request.folder, request.results) for name in names}
    if any(here.values()) or request.results:
        return here
    if not SHIPPED.is_dir():
        say(
            f"{request.folder} contains no results. The project includes some: run the command in the project's folder, or "
            f"pass --results PROJECT/{SHIPPED}.",
            to=err,
        )
        return here
    say(f"{request.folder} contains no results. Using the project's: {SHIPPED}.", to=err)
    return {name: results_of(name, request.folder, [SHIPPED]) for name in here}


def _tables(names: Iterable[str]) -> list[Table]:
    """These tables, each once; "all" means all."""
    wanted = {name if name == "all" else known_name(TABLES, name, "table"): None for name in names}
    return [TABLES[name] for name in (TABLES if "all" in wanted else wanted)]


def _columns(tables: Sequence[Table], columns: str | None) -> set[str] | None:
    """Requested columns; None for all. Raises ValueError: no table has one."""
    known = {column.name: column for table in tables for column in table.columns}
    return None if columns is None else {find(known, name.strip(), "column").name for name in columns.split(";")}


def reproduce(request: ReproduceRequest) -> None:
    """Measure tables, printing results as they come, and print the tables."""
    tables = _tables(request.tables)
    columns = _columns(tables, request.columns)
    failed = None if request.report else _measure(tables, columns, request)
    scales = BEST_FIRST if request.report and not request.scale else [scale_of(request.scale or SCALE).name]
    results = _measured(request, [table.name for table in tables])
    tabled = report(results, scales, columns, root=str(request.folder))
    print(markdown(tabled), end="")
    if failed:
        raise typer.Exit(SOME_FAILED)


def _measure(tables: Sequence[Table], columns: set[str] | None, request: ReproduceRequest) -> bool:
    """Measure what is missing; returns whether anything failed."""
    from ..experiments.configs import Cell, cells_of
    from ..experiments.work import missing, pieces, run
    from ..system.device import pick

    scale = scale_of(request.scale or SCALE)
    beginnings = tuple(word.strip().lower() for word in (request.methods or "").split(";"))
    cells = [
        cell
        for table in tables
        for cell in cells_of(table, scale.name, request.seeds, request.parents)
        if (columns is None or cell.column in columns) and cell.row.lower().startswith(beginnings)
    ]
    if not cells:
        raise ValueError(f"no row of {', '.join(table.name for table in tables)} matches --methods and --columns.")
    pick(request.device)  # raises once, not in every cell
    todo = missing(cells, request.folder, request.results)
    out.print(
        f"{len(cells)} cells: {len(cells) - len(todo)} done, {len(todo)} to do. Scale {scale.name}: {scale.sentence}."
    )
    with (
        advised("Results so far are kept. Run the same command again to resume."),
        units_progress(len(pieces(todo))) as (monitor, count),
    ):

        def on_result(measured: Sequence[Cell], results: list[Result] | str) -> None:
            count()
            if isinstance(results, str):
                return say(f"{measured[0]}: {results}")
            return say(
                f"{measured[0]}: {results[0].refusal or f'{results[0].value:.2f}'}  ({results[0].seconds:.1f} s)"
            )

        failed = run(
            todo, request.folder, jobs=request.jobs, monitor=monitor, device=request.device, on_result=on_result
        )
    out.print(f"{len(todo) - len(failed)} cells done. Results are in {request.folder}.")
    for cell, why in failed:
        say(f"Failed: {cell}: {why}", to=err)
    return bool(failed)
