"""The paper's tables next to ours, as lines, blocks and tables, which `report_formats` and `report_csv` write."""

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from .bundles import Bundle
from .cells import Table
from .claims import OURS, Claim, Order, Run, claims, rank_correlation
from .paper import Value, paper_values
from .report_parts import Block, Line, TableReport
from .results import Result
from .rows import BEST, PARENT, applies, impossible, read_row, scored
from .scales import Scale
from .setting import CellResults, Setting, is_of_this_version, settings
from .summary import SAYING, Summary, summarised
from .tables import TABLES

#: States of a line without our number.
REFUSED, MISSING, NOT_APPLICABLE, WITHOUT_CELL = "refused", "not measured", "N/A", "not planned"
MEASURED = "measured"
ACCURACY = "accuracy"
#: Note for a number that the method's current version may change.
EARLIER = "measured with an earlier version of the method"
#: Rows that apply to all columns of a table, if only one column has them.
SHARED = (PARENT, "Ensemble")


@dataclass(frozen=True)
class Report:
    """Tables, and facts about all of them."""

    scales: tuple[Scale, ...]
    tables: tuple[TableReport, ...]
    summary: Summary
    """Summary of all tables, including lines that are not shown"""
    machines: tuple[tuple[str, int], ...] = ()
    """The machines that measured the results, with the number of results"""
    others: int = 0
    """Number of results that belong to no cell of these tables"""
    outdated: int = 0
    """Number of results from earlier versions of methods, which a note marks"""

    @property
    def blocks(self) -> list[Block]:
        """The columns of all tables."""
        return [block for table in self.tables for block in table.blocks]

    def counts(self) -> dict[str, tuple[int, int]]:
        """Badge -> measured cells, all cells."""
        measured, cells = Counter[str](), Counter[str]()
        for block in self.blocks:
            measured[block.badge] += block.measured
            cells[block.badge] += block.cells
        return {badge: (measured[badge], count) for badge, count in cells.items() if count}


def report(
    bundle: Bundle,
    tables: Sequence[str],
    scales: Sequence[Scale],
    *,
    seeds: int | None = None,
    columns: Collection[str] | None = None,
    root: str = "runs",
    only_measured: bool = False,
) -> Report:
    """Tables with all numbers in the results.

    Args:
        tables: names, see `all_tables`.
        scales: the first one shows all columns, the others those with results.
        seeds: expected number of fusions (default: the scale's); further results are shown too.
        columns: show only these (default: all).
        root: runs folder, for commands.
        only_measured: leave out lines, columns and tables without a number or a refusal.
    """
    columns_of = {name: settings(TABLES[name], bundle, scales, seeds, columns) for name in tables if name in TABLES}
    written = [
        table_report(TABLES[name], columns_of[name], root, seeds) if name in TABLES else _paper_alone(name)
        for name in tables
    ]
    shown = [_measured_alone(table) for table in written] if only_measured else written
    used = {
        result.key: result
        for columns in columns_of.values()
        for setting in columns
        for known in setting.known
        for result in known.results
        if result
    }
    return Report(
        tuple(scales),
        tuple(table for table in shown if table.blocks),
        summarised(written),
        _machines(used.values()),
        len(bundle.results) - len(used),
        sum(not is_of_this_version(result) for result in used.values()),
    )


def all_tables() -> tuple[str, ...]:
    """Names of all tables: those that can be measured, then the paper's others."""
    return tuple(dict.fromkeys([*TABLES, *(value.table for value in paper_values())]))


def machine_words(result: Result) -> str:
    """The machine, versions and commit of a result."""
    commit = result.machine.get("commit")
    return ", ".join([_machine(result), *([f"commit {commit}"] if commit else [])])


def _machines(results: Iterable[Result]) -> tuple[tuple[str, int], ...]:
    """Machines with versions and all commits, and their numbers of results, most first."""
    by_machine: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda result: result.finished):
        by_machine.setdefault(_machine(result), []).append(result)
    written = [(f"{name}{_commits(same)}", len(same)) for name, same in by_machine.items()]
    return tuple(sorted(written, key=lambda one: -one[1]))


def _commits(results: Sequence[Result]) -> str:
    """The commits of one machine's results, in order of date."""
    commits = list(dict.fromkeys(commit for result in results if (commit := result.machine.get("commit"))))
    return f", commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}" if commits else ""


def _machine(result: Result) -> str:
    machine = result.machine
    numbers = [(machine[name], name) for name in ("cores", "threads") if machine.get(name)]
    counts = [f"{number} {name.removesuffix('s') if number == 1 else name}" for number, name in numbers]
    versions = [f"{name} {machine[name]}" for name in ("python", "torch", "retrofit") if machine.get(name)]
    return ", ".join([str(machine.get("device", "unknown machine")), *counts, *versions])


def _paper_alone(name: str) -> TableReport:
    """A table of the paper that cannot be measured here."""
    values = paper_values(name)
    lines = {
        column: tuple(Line(value.row, value, WITHOUT_CELL) for value in values if value.column == column)
        for column in dict.fromkeys(value.column for value in values)
    }
    blocks = tuple(Block(column, "", "", written) for column, written in lines.items())
    return TableReport(name, "not measured here", _labels(values), blocks)


def _labels(values: Sequence[Value]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value.label for value in values))


def table_report(table: Table, columns: Sequence[Setting], root: str, seeds: int | None = None) -> TableReport:
    """A table that can be measured here, with one block for each setting of a column.

    Args:
        root, seeds: as in `report`.
    """
    blocks = [_block(setting, columns, root) for setting in columns]
    missing = [setting for setting, block in zip(columns, blocks, strict=True) if block.measured < block.cells]
    commands = dict.fromkeys(command(setting, root, seeds) for setting in missing)
    filled = tuple(block for block in blocks if block.lines)
    return TableReport(table.name, table.title, table.labels, filled, tuple(commands))


def _measured_alone(table: TableReport) -> TableReport:
    """A table without lines, claims and columns that lack both number and refusal."""
    blocks = [
        replace(
            block,
            lines=tuple(line for line in block.lines if line.state in (MEASURED, REFUSED)),
            claims=tuple(claim for claim in block.claims if claim.ours is not None),
        )
        for block in table.blocks
    ]
    return replace(table, blocks=tuple(block for block in blocks if block.lines))


def command(setting: Setting, root: str, seeds: int | None = None, row: str = "") -> str:
    """The command that measures what is missing in a setting's table, or in its column if parents are given.

    Args:
        root, seeds: as in `report`.
        row: measure only this row of the column, with its parents.
    """
    given = setting.given
    words = ["retrofit", "reproduce", setting.table.name, "--scale", setting.scale.name]
    words += ["--seeds", str(seeds)] if seeds else []
    words += ["--folder", root] if root != "runs" else []
    words += ["--columns", setting.column.name] if given or row else []
    words += ["--methods", row.removesuffix(f", {BEST}")] if row else []
    if given:
        words += [word for name in given.names for word in ("--model", name)]
        words += [*(["--splits", given.splits] if given.splits else []), "--data", given.facts["data"]]
    return shlex.join(words)


def _block(setting: Setting, columns: Sequence[Setting], root: str) -> Block:
    printed = _printed(setting)
    lines = _lines(setting, printed, root)
    is_accuracy = setting.column.metric == ACCURACY
    says = setting.scale.name in SAYING
    has_order = says and (is_accuracy or setting.column.metric.startswith("part"))
    claimed = [replace(claim, decides=says) for claim in _claims(setting, columns)] if is_accuracy else []
    return Block(
        setting.column.name,
        setting.column.metric,
        setting.badge,
        lines,
        setting.scale.name,
        setting.given.names if setting.given else (),
        ranked(lines) if has_order else None,
        ranked(lines, OURS) if has_order else None,
        tuple(claimed),
        setting.measured,
        len(setting.meant),
        setting.substitute,
    )


def _printed(setting: Setting) -> dict[str, Value]:
    """Row -> the paper's number, from the full table if a short one repeats it."""
    values = [value for value in paper_values(setting.table.name) if value.column == setting.column.name]
    return {value.row: value for value in reversed(values)}


def _lines(setting: Setting, printed: Mapping[str, Value], root: str) -> tuple[Line, ...]:
    """The paper's rows in its order, then ours."""
    by_row: dict[str, list[CellResults]] = {}
    for known in setting.known:
        by_row.setdefault(known.cell.row, []).append(known)
    singles = {row: _line(setting, by_row[row], printed.get(row), root) for row in by_row}
    singles |= _sorted_parents(setting, singles)
    rows = dict.fromkeys((*setting.table.paper_rows, *setting.table.rows))
    lines = [
        _best(setting, row, [singles[each] for each in scored((row,)) if each in singles], printed.get(row))
        if row.endswith(f", {BEST}")
        else singles.get(row) or _line_without_cell(setting, row, printed.get(row))
        for row in rows
    ]
    return tuple(line for line in lines if line is not None)


def _line(setting: Setting, cells: Sequence[CellResults], paper: Value | None, root: str) -> Line:
    """The line of a row, from its cells for all seeds and parents."""
    by_parents: dict[int, list[float]] = {}
    for known in cells:
        if known.number is not None:
            by_parents.setdefault(known.cell.parents, []).append(known.number)
    values = tuple(map(tuple, by_parents.values()))
    refusal = next((known.refusal for known in cells if known.refusal), None)
    meant = [known for known in cells if known.cell.seed < setting.seeds and not known.cell.parents]
    missing = [known for known in meant if known.number is None and not known.refusal]
    chosen = (missing or cells)[0].cell
    command = " && ".join(unit.command(root) for unit in chosen.units)
    state = MEASURED if values else REFUSED if refusal else MISSING
    note = refusal or "" if not values else EARLIER if any(known.is_earlier for known in cells) else ""
    images = max(
        (int(result.metrics.get("samples", 0)) for known in cells for result in known.results if result), default=0
    )
    is_accuracy = setting.column.metric == ACCURACY
    return Line(
        *(chosen.row, paper, state, values, note, command),
        images=images if is_accuracy else 0,
        substitute=setting.substitute,
    )


def _sorted_parents(setting: Setting, singles: Mapping[str, Line]) -> dict[str, Line]:
    """Parents' lines in descending order of our accuracies, as in the paper, if their architectures are the same."""
    rows = [f"{PARENT}{index}" for index in range(setting.column.parts)]
    alike = len(set(setting.column.arch)) == 1 and setting.column.metric == ACCURACY
    if not alike or not all(row in singles and singles[row].values for row in rows):
        return {}
    ranked = sorted(rows, key=lambda row: -(singles[row].mean or 0.0))
    return {
        row: replace(
            singles[other],
            row=row,
            paper=singles[row].paper,
            note="" if row == other else f"parent {other.removeprefix(PARENT)} of ours",
            stands_for=other,
        )
        for row, other in zip(rows, ranked, strict=True)
    }


def _best(setting: Setting, row: str, lines: Sequence[Line], paper: Value | None) -> Line | None:
    """The line of the best of several scores; None if there is none."""
    if not lines:
        return _line_without_cell(setting, row, paper)
    measured = [line for line in lines if line.mean is not None]
    sign = 1 if setting.column.metric == ACCURACY else -1
    best = max(measured, key=lambda line: sign * (line.mean or 0.0), default=None)
    if best is None:
        return replace(lines[0], row=row, paper=paper)
    note = "; ".join(filter(None, [f"that of {best.row}", best.note]))
    return replace(best, row=row, paper=paper, note=note, stands_for=best.row)


def _line_without_cell(setting: Setting, name: str, paper: Value | None) -> Line | None:
    """The line of a row without cells: the method does not apply, or its number follows from others."""
    if paper is not None:
        return Line(name, paper, WITHOUT_CELL, note=impossible(read_row(name)) if _is_row(name) else "")
    if name.startswith(PARENT) or not _is_row(name):
        return None
    column = setting.column
    does_apply = applies(read_row(name), column.parts, len(set(column.arch)) == 1)
    return None if does_apply else Line(name, None, NOT_APPLICABLE)


def _is_row(name: str) -> bool:
    try:
        read_row(name)
    except ValueError:
        return False
    return True


def ranked(lines: Sequence[Line], only: Sequence[str] = ()) -> Order | None:
    """Agreement between the paper's order of lines and ours at one scale; `only` as in `rank_correlation`."""
    printed = {line.row: line.paper.mean for line in lines if line.paper is not None}
    return rank_correlation(printed, {line.row: line.mean for line in lines if line.mean is not None}, only)


def _claims(setting: Setting, columns: Sequence[Setting]) -> list[Claim]:
    """A column's claims; parents in another column count for this one, too."""
    printed, measured = _printed(setting), measured_rows(setting)
    if not any(row.startswith(PARENT) for row in printed):
        others = [other for other in columns if other.column.metric == ACCURACY and other.has_parents_of(setting)]
        beside = next((each for each in others if any(row.startswith(PARENT) for row in _printed(each))), None)
        if beside is not None:
            printed |= {row: value for row, value in _printed(beside).items() if row.startswith(SHARED)}
            measured |= {row: by_seed for row, by_seed in measured_rows(beside).items() if row.startswith(SHARED)}
    return claims(printed, measured)


def measured_rows(setting: Setting) -> dict[str, dict[Run, Result]]:
    """Row -> (parents, seed) -> result, for cells with a number."""
    measured: dict[str, dict[Run, Result]] = {}
    for known in setting.known:
        result = known.results[0]
        if known.number is not None and result is not None:
            measured.setdefault(known.cell.row, {})[known.cell.parents, known.cell.seed] = result
    return measured
