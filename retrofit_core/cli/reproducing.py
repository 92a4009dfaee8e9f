"""The work of `retrofit reproduce`."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import typer

from ..experiments.cells import Cell, Table
from ..experiments.report import markdown, report, spreadsheet
from ..experiments.results import Records, Result, measured_in, results_in
from ..experiments.runner import plan, run
from ..experiments.scales import EVERY_SCALE, Scale, scale_of
from ..experiments.setting import settings
from ..experiments.tables import TABLES
from ..experiments.units import Unit
from ..experiments.work import title
from ..system.device import pick
from ..system.files import write
from ..system.registry import find, known_name
from .requests import ReproduceRequest
from .terminal import advised, err, new_table, out, say, units_progress

SOME_FAILED = 1
SCALE = "small"
#: Results shipped with the project, relative to its folder.
SHIPPED = Path("benchmarks/results/experiments")


def measured(folder: Path, results: Sequence[Path]) -> Records:
    """Results of a runs folder and of `results`; the shipped ones if the folder has none and `results` is empty."""
    here = measured_in(folder, results)
    if here.results or results:
        return here
    if not SHIPPED.is_dir():
        say(
            f"{folder} contains no results. The project includes some: run the command in the project's folder, or "
            f"pass --results PROJECT/{SHIPPED}.",
            to=err,
        )
        return here
    say(f"{folder} contains no results. Using the project's: {SHIPPED}.", to=err)
    return results_in(SHIPPED)


def scales_of(words: str | None) -> list[Scale]:
    """Scales separated by commas; None for all."""
    return [scale_of(name.strip()) for name in words.split(",")] if words else list(EVERY_SCALE)


def list_tables(asked: ReproduceRequest) -> None:
    """Print how many cells of each table are measured, by badge (scale and parents)."""
    known = measured(asked.folder, asked.results)
    listed = new_table("table", "what", "cells measured")
    for entry in TABLES.values():
        every = [each for each in settings(entry, known, scales_of(asked.scale)[::-1]) if each.is_measured]
        words = [
            f"{sum(each.counts[0] for each in every if each.badge == badge)} {badge}"
            for badge in dict.fromkeys(each.badge for each in every)
        ]
        listed.add_row(entry.name, entry.title, "\n".join(words or ["none"]))
    out.print(listed)


def _tables(names: Iterable[str]) -> list[Table]:
    """These tables, each once; "all" means all."""
    asked = {name if name == "all" else known_name(TABLES, name, "table"): None for name in names}
    return [TABLES[name] for name in (TABLES if "all" in asked else asked)]


def cells_of(tables: Sequence[Table], asked: ReproduceRequest) -> list[Cell]:
    """Cells of the requested columns and rows."""
    wanted = _columns_of(tables, asked.columns)
    beginnings = tuple(word.strip().lower() for word in (asked.methods or "").split(";"))
    cells = [
        cell
        for table in tables
        for cell in table.cells(scale_of(asked.scale or SCALE), asked.seeds, None, asked.parents)
        if (wanted is None or cell.column in wanted) and cell.row.lower().startswith(beginnings)
    ]
    if not cells:
        raise ValueError(f"no row of {', '.join(table.name for table in tables)} matches --methods and --columns.")
    return cells


def reproduce(asked: ReproduceRequest) -> None:
    """Measure tables, printing results as they come, and print the tables."""
    tables = _tables(asked.tables)
    failed = None if asked.report else measure(tables, asked)
    scales = scales_of(asked.scale if asked.report else asked.scale or SCALE)
    known = measured(asked.folder, asked.results)
    columns, names = _columns_of(tables, asked.columns), [table.name for table in tables]
    tabled = report(known, names, scales, columns=columns, root=str(asked.folder))
    print(markdown(tabled), end="")
    if asked.out is not None:
        write(asked.out, spreadsheet(tabled))
        say(f"All numbers are in {asked.out}.", to=err)
    if failed:
        raise typer.Exit(SOME_FAILED)


def measure(tables: Sequence[Table], asked: ReproduceRequest) -> bool:
    """Measure what is missing; returns whether anything failed."""
    pick(asked.device)  # raises once, not in every unit
    scale = scale_of(asked.scale or SCALE)
    planned = plan(cells_of(tables, asked), asked.folder, measured_in(asked.folder, asked.results).results)
    missing = [unit for unit, result in planned if result is None]
    out.print(
        f"{len(planned)} units of work: {len(planned) - len(missing)} done, {len(missing)} to do. Scale {scale.name}: "
        f"{scale.sentence}."
    )
    with (
        advised("Results so far are kept. Run the same command again to resume."),
        units_progress(len(missing)) as (monitor, count),
    ):

        def on_result(unit: Unit, result: Result | str) -> None:
            count()
            if isinstance(result, str):
                return say(f"{title(unit)}: {result}")
            accuracy = f"{result.metrics['accuracy']:.2f} %" if "accuracy" in result.metrics else "measured"
            return say(f"{title(unit)}: {result.refusal or accuracy}  ({result.metrics['all_seconds']:.1f} s)")

        failed = run(
            missing,
            asked.folder,
            jobs=asked.jobs,
            monitor=monitor,
            device=asked.device,
            on_result=on_result,
        )
    out.print(f"{len(missing) - len(failed)} units done. Results are in {asked.folder}.")
    for unit, why in failed:
        say(f"Failed: {title(unit)}: {why}", to=err)
    return bool(failed)


def _columns_of(tables: Sequence[Table], columns: str | None) -> set[str] | None:
    """Requested columns; None for all.

    Raises:
        ValueError: no table has a requested column.
    """
    if columns is None:
        return None
    known = {column.name: column for table in tables for column in table.columns}
    return {find(known, name.strip(), "column").name for name in columns.split(";")}
