"""One table of the paper in a notebook: its numbers beside ours, as a table and as values, measured where they are missing.

```python
from retrofit_core.experiments import table

vgg = table("vgg11-noniid", results="benchmarks/results/experiments")
vgg.show()  # all columns, each row at the fullest scale at which it is measured
two_way = vgg.column("2-way")
two_way.number("KF-Linear, conductance")  # % of test images
two_way.at("small").number("KF-Linear, conductance")  # at a scale of its own
two_way.claim("KF-Linear", "best parent").verdict  # "agreed"
two_way.recipe("KF-Linear, conductance")  # command, machine, commit, digests
table("vgg11-noniid", scale="small").measure(seconds=600)  # trains and fuses what is missing
```
"""

import dataclasses
import datetime
import statistics
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..data.datasets import DATASETS
from ..system.monitor import Monitor
from ..system.registry import find
from .bundles import Bundle, merged, results_in
from .cells import Table
from .claims import OURS, Claim, Gap, gap
from .planning import plan
from .progress import notebook_bar
from .report import command, machine_words, measured_rows, ranked, table_report
from .report_formats import HTML, MARKDOWN
from .report_parts import Block, Line, TableReport
from .results import Result, all_results
from .rows import PARENT, scored
from .runner import run
from .scales import BEST_FIRST, EVERY_SCALE, scale_of
from .setting import CellResults, Setting, settings
from .summary import SAYING
from .tables import TABLES


@dataclass(frozen=True, repr=False)
class Display:
    """Something to be looked at: as HTML in a notebook, as Markdown in a terminal."""

    html: str
    markdown: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.markdown


@dataclass(frozen=True, repr=False)
class ReproducedColumn:
    """A column of a table at one scale, with parents of one kind; or at several of them, see `by_row`."""

    table: str
    block: Block
    """Its lines and the paper's claims"""
    setting: Setting
    """The scale, the data set that serves, and the results behind the lines; of several those of most lines"""
    scales: tuple["ReproducedColumn", ...] = ()
    """The column at each of several scales, the fullest first; else empty"""

    @property
    def name(self) -> str:
        """As in the paper: "2-way"."""
        return self.block.column

    @property
    def badge(self) -> str:
        """The scale (of most lines; the others have a badge of their own), and what serves in place of data or parents."""
        return self.block.badge

    @property
    def says(self) -> bool:
        """Whether its scale says something of accuracy."""
        return self.block.scale in SAYING

    @property
    def main(self) -> "ReproducedColumn":
        """The column at the scale of most of its lines alone."""
        return next((each for each in self.scales if each.setting is self.setting), self)

    def at(self, scale: str) -> "ReproducedColumn":
        """The column at one of its scales alone.

        Raises:
            ValueError: it is not measured there.
        """
        known = {each.setting.scale.name: each for each in reversed(self.scales or (self,))}
        return find(known, scale, f"scale of {self.table}, {self.name}")

    def of(self, row: str) -> "ReproducedColumn":
        """The column at the scale at which a row stands."""
        return _fullest(self.scales, row) if self.scales else self

    @property
    def lines(self) -> tuple[Line, ...]:
        """The rows that have a number of ours, in the paper's order."""
        return tuple(line for line in self.block.lines if line.mean is not None)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes of the data set that serves, or their numbers where it is not at hand."""
        facts = DATASETS.get(self.setting.data)
        number = max((len(self.per_class(line.row)) for line in self.lines), default=0)
        names = tuple(getattr(facts, "classes", None) or ())
        return names if len(names) == number else tuple(map(str, range(number)))

    def line(self, row: str) -> Line:
        """A row, measured or not.

        Raises:
            ValueError: no row of that name.
        """
        return find({line.row: line for line in self.block.lines}, row, f"row of {self.table}, {self.name}")

    def number(self, row: str) -> float:
        """Our mean over seeds, in the unit of the column's metric.

        Raises:
            ValueError: no such row, or it is not measured; the sentence holds the command that does it.
        """
        line = self.line(row)
        if line.mean is None:
            why = line.note or f"measure it with: {line.command}" if line.command or line.note else line.state
            raise ValueError(f"{row!r} of {self.table}, {self.name} has no number of ours ({self.badge}): {why}.")
        return line.mean

    def claim(self, left: str, right: str) -> Claim:
        """What the paper's numbers claim of the difference between two rows (or methods, or "best parent"), and ours, both at
        the fullest scale that has both.

        Raises:
            ValueError: the paper's table does not have this difference.
        """
        known = {f"{claim.left} - {claim.right}": claim for claim in self.block.claims}
        return find(known, f"{left} - {right}", f"difference of {self.table}, {self.name}")

    def gap(self, left: str, right: str) -> Gap | None:
        """How much more accurate one row of ours is than another, in points, at the fullest scale that has both; None where no
        seed of both is measured.

        Raises:
            ValueError: no row of that name.
        """
        for each in self.scales:
            if (found := each.gap(left, right)) is not None:
                return dataclasses.replace(found, badge="" if each.badge == self.badge else each.badge)
        return gap(self._measured_as(left), self._measured_as(right), measured_rows(self.setting))

    def results(self, row: str) -> tuple[Result, ...]:
        """The results behind a row, one for each seed that is measured."""
        return tuple(known.results[0] for known in self._known(row) if known.results[0] is not None)

    def images(self, row: str) -> int:
        """Test images on which a row was measured; 0 where it has none."""
        return next((int(result.metrics.get("samples", 0)) for result in self.results(row)), 0)

    def per_class(self, row: str) -> tuple[float, ...]:
        """Accuracy (%) on each class, mean over seeds, (classes,); () where it was not kept."""
        by_seed = [result.metrics["per_class"] for result in self.results(row) if result.metrics.get("per_class")]
        return tuple(statistics.fmean(values) for values in zip(*by_seed, strict=True) if None not in values)

    def recipe(self, row: str) -> dict[str, Any]:
        """How a number came about: command, scale, seeds, machine, versions and commit, date, digests of what went in.

        Raises:
            ValueError: no such row, or it is not measured.
        """
        self.number(row)
        result = self.results(row)[0]
        return {
            "row": row,
            "scale": self.line(row).badge or self.badge,
            "seeds": len(self.line(row).values),
            "command": result.command,
            "machine": machine_words(result),
            "date": f"{datetime.datetime.fromtimestamp(result.finished, datetime.UTC):%Y-%m-%d}",
            "inputs": {role: digest[:12] for role, digest in result.inputs.items()},
        }

    def frame(self) -> pd.DataFrame:
        """One line a row with a number of ours or the paper's: means, deviations, seeds, difference, scale."""
        return pd.DataFrame(
            {
                "column": self.name,
                "row": line.row,
                "paper": line.paper.mean if line.paper else None,
                "paper deviation": line.paper.deviation if line.paper else None,
                "ours": line.mean,
                "deviation": line.deviation,
                "seeds": len(line.values),
                "difference": line.difference,
                "scale": line.badge or self.badge if line.values else None,
            }
            for line in self.block.lines
        )

    def show(self, rows: Sequence[str] | None = None) -> Display:
        """The table, with the scale on every number.

        Args:
            rows: only these, in this order (default: all that have a number or a refusal, or the paper's where none has).
        Raises:
            ValueError: no row of one of these names.
        """
        lines = [self.line(row) for row in rows] if rows else _shown(self.block, paper_alone=not self.lines)
        block = dataclasses.replace(self.block, lines=tuple(lines))
        return Display(HTML.block(block), MARKDOWN.block(block))

    def __repr__(self) -> str:
        return (
            f"<{self.table}, {self.name}: {len(self.lines)} of {len(self.block.lines)} rows measured ({self._badges})>"
        )

    @property
    def _badges(self) -> str:
        return "; ".join(dict.fromkeys([self.badge, *(line.badge for line in self.lines if line.badge)]))

    def _measured_as(self, row: str) -> str:
        """The row whose results a row shows: of equal parents the better one stands first, whatever its number."""
        line = self.line(row)
        return line.stands_for or line.row

    def _known(self, row: str) -> list[CellResults]:
        measured_as = self._measured_as(row)
        return [known for known in self.of(row).setting.known if known.cell.row == measured_as]


@dataclass(frozen=True, repr=False)
class ReproducedTable:
    """A table of the paper and what is measured of it."""

    report: TableReport
    columns: tuple[ReproducedColumn, ...]
    request: "Request"

    @property
    def name(self) -> str:
        """Of TABLES."""
        return self.report.name

    def column(self, name: str | None = None) -> ReproducedColumn:
        """A column, of several with one name the first; without a name the first that is measured.

        Raises:
            ValueError: no column of that name.
        """
        if name is None:
            return next((column for column in self.columns if column.lines), self.columns[0])
        return find({column.name: column for column in reversed(self.columns)}, name, f"column of {self.name}")

    def show(self, columns: Collection[str] | None = None) -> Display:
        """All columns, or some, each with the scale on every number, and the command that measures what is missing.

        Where nothing is measured these are the paper's numbers alone.

        Raises:
            ValueError: no column of one of these names.
        """
        wanted = {self.column(name).name for name in columns} if columns else None
        chosen = [column for column in self.columns if wanted is None or column.name in wanted]
        nothing = not any(column.lines for column in chosen)
        blocks = [
            dataclasses.replace(column.block, lines=tuple(_shown(column.block, paper_alone=nothing)))
            for column in chosen
        ]
        report = dataclasses.replace(self.report, blocks=tuple(blocks))
        return Display(HTML.table(report), MARKDOWN.table(report))

    def frame(self) -> pd.DataFrame:
        """All columns, one below the other, as `ReproducedColumn.frame`."""
        return pd.concat([column.frame() for column in self.columns], ignore_index=True)

    def measure(
        self,
        seconds: float | None,
        rows: Sequence[str] | None = None,
        device: str = "auto",
        monitor: Monitor | None = None,
    ) -> "ReproducedTable":
        """Train and fuse what neither `runs` nor `results` hold, most valuable first, with a progress bar in a notebook.

        Returns the table with what is new.

        Can be interrupted at any moment and called again: what is done is kept.

        Args:
            seconds: after which nothing goes on; 0 measures nothing, None all.
            rows: only those that begin so, as "KF-Linear" (default: all).
        Raises:
            ValueError: no scale was named, so that it is not clear what is missing; or a unit failed.
        """
        if seconds is not None and seconds <= 0:
            return self
        request = self.request
        if request.scale is None:
            raise ValueError(
                f'measure: name a scale, as table({self.name!r}, scale="small"); without one the best is shown that is there.'
            )
        cells = TABLES[self.name].cells(scale_of(request.scale), request.seeds)
        names = [column.name for column in self.columns]
        beginnings = tuple(rows) if rows else ("",)
        wanted = [cell for cell in cells if cell.column in names and cell.row.startswith(beginnings)]
        planned = plan(wanted, request.runs, request.known().results)
        missing = sum(one.result is None for one in planned)
        if not missing:
            return self
        deadline = None if seconds is None else time.time() + seconds
        with notebook_bar(missing) as (bar, on_result):
            outcome = run(
                planned, request.runs, monitor=monitor or bar, deadline=deadline, device=device, on_result=on_result
            )
        if outcome.failed:
            unit, why = outcome.failed[0]
            raise ValueError(f"{len(outcome.failed)} of {missing} units failed; the first: {unit.key()}: {why}")
        return request.read()

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.columns))


@dataclass(frozen=True)
class Request:
    """What `table` was asked for, so that it can be read again."""

    name: str
    scale: str | None
    columns: tuple[str, ...] | None
    seeds: int | None
    runs: Path
    results: tuple[Path, ...]

    def known(self) -> Bundle:
        """What is measured now."""
        return merged([Bundle(all_results(self.runs)), *map(results_in, self.results)])

    def read(self) -> ReproducedTable:
        """The table as it is measured now."""
        current = self.known()
        entry = TABLES[self.name]
        scales = [scale_of(self.scale)] if self.scale else EVERY_SCALE
        chosen, root = settings(entry, current, scales, self.seeds, self.columns), str(self.runs)
        report, columns = reproduced(entry, chosen, root, self.seeds)
        if not self.scale:
            columns = by_row(columns)
            missing = [column.setting for column in columns if column.block.measured < column.block.cells]
            commands = dict.fromkeys(command(setting, root, self.seeds) for setting in missing)
            report = dataclasses.replace(
                report, blocks=tuple(column.block for column in columns), commands=tuple(commands)
            )
        return ReproducedTable(report, columns, self)


def table(
    name: str,
    *,
    scale: str | None = None,
    columns: Sequence[str] | None = None,
    seeds: int | None = None,
    runs: str | Path = "runs",
    results: str | Path | Sequence[str | Path] = (),
) -> ReproducedTable:
    """A table of the paper beside what is measured of it.

    Args:
        name: of `retrofit reproduce --list`, as "vgg11-noniid".
        scale: smoke, small, evening or paper; None shows each row at the fullest scale at which it is measured, as `by_row`.
        columns: only these, as ("2-way",).
        seeds: fusions of the same parents that are meant to be there (default: the scale's).
        runs: folder with results of this machine, where `measure` writes; need not exist.
        results: files or folders that `retrofit report --bundle` wrote, or other runs folders.
    Raises:
        ValueError: no such table, column, scale or file, or a damaged one.
    """
    entry = find(TABLES, name, "table")
    if scale is not None:
        scale = scale_of(scale).name
    known = {column.name: column for column in entry.columns}
    chosen = None if columns is None else tuple(find(known, each, f"column of {entry.name}").name for each in columns)
    paths = [results] if isinstance(results, str | Path) else list(results)
    return Request(entry.name, scale, chosen, seeds, Path(runs), tuple(map(Path, paths))).read()


def reproduced(
    entry: Table, chosen: Sequence[Setting], root: str, seeds: int | None = None
) -> tuple[TableReport, tuple[ReproducedColumn, ...]]:
    """A table's report, and its columns with the results behind them.

    Args:
        chosen: settings of the table's columns.
        root, seeds: as in `report.report`.
    """
    report = table_report(entry, chosen, root, seeds)
    columns = [ReproducedColumn(entry.name, *pair) for pair in zip(report.blocks, chosen, strict=True)]
    return report, tuple(columns)


def by_row(columns: Sequence[ReproducedColumn]) -> tuple[ReproducedColumn, ...]:
    """Each column once: its rows and claims each at the fullest scale at which they are measured, with a badge of their own
    where that is not the scale of most.

    A claim compares rows of one scale. `smoke` says nothing of accuracy: it counts where there is nothing else.

    Args:
        columns: of one table, each at one scale.
    """
    by_name: dict[str, list[ReproducedColumn]] = {}
    for column in sorted(columns, key=lambda each: BEST_FIRST.index(each.setting.scale.name)):
        by_name.setdefault(column.name, []).append(column)
    return tuple(_joined(by_name[name]) for name in dict.fromkeys(column.name for column in columns))


def _joined(same: Sequence[ReproducedColumn]) -> ReproducedColumn:
    """One column, at several scales, the fullest first."""
    scales = tuple(each for each in same if each.says) or tuple(same)
    if len(scales) == 1:
        return scales[0]
    rows = dict.fromkeys(line.row for each in scales for line in each.block.lines)
    of_row = {row: _fullest(scales, row) for row in rows}
    lines = {row: each.line(row) for row, each in of_row.items()}
    counts = Counter(each.badge for row, each in of_row.items() if lines[row].mean is not None)
    main = max(scales, key=lambda each: counts[each.badge])

    def badge(each: ReproducedColumn) -> str:
        return "" if each.badge == main.badge else each.badge

    badged = [dataclasses.replace(line, badge=badge(of_row[row])) for row, line in lines.items()]
    claims: dict[tuple[str, str], Claim] = {}
    for each in scales:
        for claim in each.block.claims:
            key = claim.left, claim.right
            if key not in claims or claims[key].ours is None:
                claims[key] = dataclasses.replace(claim, badge=badge(each) if claim.ours is not None else "")
    alike = [line for line in badged if not line.badge]
    has_order = main.block.ranked is not None
    block = dataclasses.replace(
        main.block,
        lines=tuple(badged),
        claims=tuple(claims.values()),
        ranked=ranked(alike) if has_order else None,
        ranked_own=ranked(alike, OURS) if has_order else None,
    )
    return ReproducedColumn(main.table, block, main.setting, scales)


def _fullest(scales: Sequence[ReproducedColumn], row: str) -> ReproducedColumn:
    """The scale at which a row stands: the fullest that has it. Parents stand together, for the best one is asked for; so do
    the scores of which a row is the best."""

    def known(each: ReproducedColumn) -> tuple[int, bool]:
        lines = {line.row: line for line in each.block.lines}
        together = [name for name in lines if name.startswith(PARENT)] if row.startswith(PARENT) else scored((row,))
        measured = sum(lines[name].mean is not None for name in together if name in lines)
        refused = row in lines and lines[row].mean is None and bool(lines[row].note)
        return measured if row in lines else -1, refused

    return max(scales, key=known)


def _shown(block: Block, paper_alone: bool) -> list[Line]:
    """The lines that have a number of ours or a reason, and all of the paper's where it stands alone."""
    return [line for line in block.lines if _says(line) or (paper_alone and line.paper is not None)]


def _says(line: Line) -> bool:
    """Whether a line has a number of ours or a reason."""
    return line.mean is not None or bool(line.note)
