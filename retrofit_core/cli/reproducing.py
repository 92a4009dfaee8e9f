"""The work of `retrofit reproduce` and `retrofit report`."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from ..experiments.bundles import Bundle, GivenParents, merged
from ..experiments.cells import Cell, Table, substitute
from ..experiments.folders import update_folder
from ..experiments.parallel import run_in_parallel
from ..experiments.planning import plan
from ..experiments.report import report
from ..experiments.report_formats import FORMATS
from ..experiments.results import Result, all_results
from ..experiments.runner import OnResult, Outcome, run
from ..experiments.scales import scale_of
from ..experiments.tables import TABLES
from ..experiments.units import ParentSource, Unit
from ..experiments.work import title
from ..system.device import pick
from ..system.files import write
from ..system.registry import find, known_name
from .checks import check_folder, check_replaced
from .measured import measured, results_of, scales_of
from .progress import advised, units_progress
from .requests import ReportRequest, ReproduceRequest, TablesRequest
from .terminal import err, new_table, out, say

SOME_FAILED = 1
SCALE = "small"


def _chosen(known: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Names of the chosen tables, each once; "all" means all known ones."""
    chosen = {name if name == "all" else known_name(known, name, "table"): None for name in names}
    return list(known if "all" in chosen else chosen)


def chosen_cells(tables: Sequence[Table], asked: ReproduceRequest) -> list[Cell]:
    """Cells of the requested columns and rows."""
    scale, given = scale_of(asked.scale or SCALE), given_source(asked)
    cells = [cell for table in tables for cell in table.cells(scale, asked.seeds, given, asked.parents)]
    if wanted := _columns_of([table.name for table in tables], asked.columns):
        cells = [cell for cell in cells if cell.column in wanted]
    if asked.methods:
        beginnings = tuple(word.strip().lower() for word in asked.methods.split(";"))
        cells = [cell for cell in cells if cell.row.lower().startswith(beginnings)]
    if not cells:
        raise ValueError(f"no row of {', '.join(table.name for table in tables)} matches --methods and --columns.")
    return cells


def reproduce(asked: ReproduceRequest) -> None:
    """Measure tables and print results as they come."""
    if asked.backend == "loky":
        pick(asked.device)  # raises once, not in every unit
    scale = asked.scale or SCALE
    chosen = [TABLES[name] for name in _chosen(TABLES, asked.tables)]
    planned = plan(chosen_cells(chosen, asked), asked.folder, results_of(asked.results).results)
    _say_substitutes(chosen, scale)
    missing = [unit for unit, result in planned if result is None]
    out.print(
        f"{len(planned)} units of work: {len(planned) - len(missing)} done, {len(missing)} to do. Scale {scale}: "
        f"{scale_of(scale).sentence}."
    )
    if asked.plan:
        table = new_table("state", "unit")
        for unit, result in planned:
            table.add_row("to do" if result is None else "refused" if result.refusal else "done", title(unit))
        return out.print(table)
    deadline = time.time() + asked.time_budget if asked.time_budget else None
    with (
        advised("Results so far are kept. Run the same command again to resume."),
        units_progress(len(missing)) as (monitor, count),
    ):
        ways: dict[str, Any] = {"device": asked.device, "deadline": deadline, "on_result": _counting(count)}
        if asked.backend == "loky" and asked.jobs == 1 and asked.scheduler is None:
            outcome = run(missing, asked.folder, monitor=monitor, **ways)
        else:
            ways |= {"jobs": asked.jobs, "backend": asked.backend, "scheduler": asked.scheduler}
            outcome = run_in_parallel(missing, asked.folder, **ways)
    return _close(outcome, asked.folder)


def print_report(asked: ReportRequest) -> None:
    """Print or write the tables, or bundles of their results."""
    write_as = find(FORMATS, asked.format, "format")
    read = [*asked.results, *asked.model, *filter(None, [asked.splits])]
    check_replaced("--out", [asked.out], overwrite=asked.overwrite, read=read)
    check_folder(asked.bundle, "--bundle")
    chosen = _chosen(TABLES, asked.tables or ["all"])
    wanted = _columns_of(chosen, asked.columns)
    of_tables = _given_for(chosen if asked.tables else [], wanted, given_source(asked))
    if asked.bundle is not None:
        known = merged([Bundle(all_results(asked.folder), of_tables), results_of(asked.results)])
        written = update_folder(asked.bundle, known, [TABLES[name] for name in chosen])
        for file, count in written.items():
            say(f"{count} results are in {file}.")
        if not written:
            say(f"Nothing written to {asked.bundle}: there are no results for these tables.", to=err)
        return
    known = merged([Bundle({}, of_tables), measured(asked.folder, asked.results)])
    root, scales = str(asked.folder), scales_of(asked.scale)
    text = write_as(
        report(known, chosen, scales, seeds=asked.seeds, columns=wanted, root=root, only_measured=asked.only_measured)
    )
    if asked.out is None:
        print(text, end="")
    else:
        write(asked.out, text)
        say(f"The report is in {asked.out}.")


def _columns_of(tables: Sequence[str], columns: str | None) -> set[str] | None:
    """Requested columns; None for all.

    Raises:
        ValueError: no table has a requested column.
    """
    if columns is None:
        return None
    known = {column.name: column for name in tables for column in TABLES[name].columns}
    return {find(known, name.strip(), "column").name for name in columns.split(";")}


def _given_for(
    tables: Sequence[str], columns: set[str] | None, source: ParentSource | None
) -> tuple[GivenParents, ...]:
    """Given checkpoints as parents of the chosen columns that have as many parents."""
    if source is None:
        return ()
    parts = len(source.models)
    stands_for = tuple(
        (name, column.name)
        for name in tables
        for column in TABLES[name].columns
        if column.parts == parts and (columns is None or column.name in columns)
    )
    if not stands_for:
        raise ValueError(
            f"no chosen column has {parts} parents, as many as --model names. Choose a table (and --columns) with "
            f"{parts} parents."
        )
    return (GivenParents(stands_for, source.models, source.to_json(), source.given_splits),)


def given_source(asked: TablesRequest) -> ParentSource | None:
    """Checkpoints in place of trained parents.

    Raises:
        ValueError: a file is missing.
    """
    if not asked.model:
        return None
    files = [*asked.model, *([asked.splits] if asked.splits else [])]
    if missing := [file for file in files if not file.is_file()]:
        raise ValueError(
            f"there is no file {missing[0]}: name checkpoints with --model, and their splits with --splits."
        )
    return ParentSource(None, tuple(map(str, asked.model)), str(asked.splits) if asked.splits else None, asked.data)


def _say_substitutes(tables: Sequence[Table], scale: str) -> None:
    for table in tables:
        served = {column.data: substitute(column, scale_of(scale)) for column in table.columns}
        for name, other in served.items():
            if other:
                out.print(f"{table.name}: {other} instead of {name}, which is not on disk or not used at this scale.")


def _counting(count: Callable[[], None]) -> OnResult:
    """Callback that counts finished units and prints results."""

    def on_result(unit: Unit, result: Result | str) -> None:
        count()
        words = result if isinstance(result, str) else result.refusal or _accuracy(result)
        seconds = "" if isinstance(result, str) else f"  ({result.metrics['all_seconds']:.1f} s)"
        say(f"{title(unit)}: {words}{seconds}")

    return on_result


def _accuracy(result: Result) -> str:
    return f"{result.metrics['accuracy']:.2f} %" if "accuracy" in result.metrics else "measured"


def _close(outcome: Outcome, folder: Path) -> None:
    out.print(
        f"{outcome.done} units done"
        + (
            f", {outcome.left} not done because time ran out: run the same command again to resume"
            if outcome.left
            else ""
        )
        + f". Results are in {folder}; `retrofit report` prints the tables."
    )
    for unit, why in outcome.failed:
        say(f"Failed: {title(unit)}: {why}", to=err)
    if outcome.failed:
        raise typer.Exit(SOME_FAILED)
