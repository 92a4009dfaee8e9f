"""One table of the paper in a notebook: its numbers beside ours, as a table and as values, measured where they are missing.

```python
from retrofit_core.experiments import table

vgg = table("vgg11-noniid", results="benchmarks/results/experiments")
vgg.show()  # all columns, each with its scale
two_way = vgg.column("2-way")
two_way.number("KF-Linear, conductance")  # % of test images
two_way.claim("KF-Linear", "best parent").verdict  # "agreed"
two_way.recipe("KF-Linear, conductance")  # command, machine, commit, digests
table("vgg11-noniid", scale="small").measure(seconds=600)  # trains and fuses what is missing
```
"""

import dataclasses
import datetime
import statistics
import time
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
from .claims import Claim, Gap, gap
from .planning import plan
from .progress import notebook_bar
from .report import machine_words, measured_rows, table_report
from .report_formats import HTML, MARKDOWN
from .report_parts import Block, Line, TableReport
from .results import Result, all_results
from .runner import run
from .scales import BEST_FIRST, SCALES, UNMEASURED, scale_of
from .setting import CellResults, Setting, settings
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
    """A column of a table at one scale, with parents of one kind."""

    table: str
    block: Block
    """Its lines and the paper's claims"""
    setting: Setting
    """The scale, the data set that serves, and the results behind the lines"""

    @property
    def name(self) -> str:
        """As in the paper: "2-way"."""
        return self.block.column

    @property
    def badge(self) -> str:
        """The scale, and what serves in place of the paper's data set or of trained parents."""
        return self.block.badge

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
        """What the paper's numbers claim of the difference between two rows (or methods, or "best parent"), and ours.

        Raises:
            ValueError: the paper's table does not have this difference.
        """
        known = {f"{claim.left} - {claim.right}": claim for claim in self.block.claims}
        return find(known, f"{left} - {right}", f"difference of {self.table}, {self.name}")

    def gap(self, left: str, right: str) -> Gap | None:
        """How much more accurate one row of ours is than another, in points; None where no seed of both is measured.

        Raises:
            ValueError: no row of that name.
        """
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
            "scale": self.badge,
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
                "scale": self.badge if line.values else None,
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
        return f"<{self.table}, {self.name}: {len(self.lines)} of {len(self.block.lines)} rows measured ({self.badge})>"

    def _measured_as(self, row: str) -> str:
        """The row whose results a row shows: of equal parents the better one stands first, whatever its number."""
        line = self.line(row)
        return line.stands_for or line.row

    def _known(self, row: str) -> list[CellResults]:
        measured_as = self._measured_as(row)
        return [known for known in self.setting.known if known.cell.row == measured_as]


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
        if self.scale:
            chosen = settings(entry, current, [scale_of(self.scale)], self.seeds, self.columns)
        else:
            chosen = _best(entry, current, self.seeds, self.columns)
        return ReproducedTable(*reproduced(entry, chosen, str(self.runs), self.seeds), self)


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
        scale: smoke, small, evening or paper; None shows each column at the best scale at which it was measured, be it `smoke`.
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


def _best(table: Table, bundle: Bundle, seeds: int | None, columns: Collection[str] | None) -> list[Setting]:
    """Each column at the first of the scales at which it is measured; at `UNMEASURED` where it is not."""
    by_scale = [settings(table, bundle, [SCALES[name]], seeds, columns) for name in BEST_FIRST]
    by_column: dict[str, list[Setting]] = {}
    for setting in (each for of_scale in by_scale for each in of_scale):
        by_column.setdefault(setting.column.name, []).append(setting)
    unmeasured = {each.column.name: each for each in by_scale[BEST_FIRST.index(UNMEASURED)]}
    return [next((each for each in same if each.is_measured), unmeasured[name]) for name, same in by_column.items()]


def _shown(block: Block, paper_alone: bool) -> list[Line]:
    """The lines that have a number of ours or a reason, and all of the paper's where it stands alone."""
    return [line for line in block.lines if _says(line) or (paper_alone and line.paper is not None)]


def _says(line: Line) -> bool:
    """Whether a line has a number of ours or a reason."""
    return line.mean is not None or bool(line.note)
