"""One table of the paper in a notebook: its numbers next to ours, as a table and as values.

```python
from retrofit_core.experiments import table

vgg = table("vgg11-noniid", results="benchmarks/results/experiments")
vgg.show()  # all columns, each row at the fullest scale at which it is measured
two_way = vgg.column("2-way")
two_way.number("KF-Linear, conductance")  # % of test images
two_way.at("small").number("KF-Linear, conductance")  # at a scale of its own
two_way.claim("KF-Linear", "best parent").verdict  # "agreed"
two_way.command("KF-Linear, conductance")  # which measures it
```
"""

import dataclasses
import shlex
import statistics
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path

from ..system.registry import find
from ..system.tables import markdown_table
from .cells import Column, Table
from .claims import DECIDED, Claim, Gap, claims, gap
from .lines import ACCURACY, MISSING, Line, Measured, lines_of, measured_rows, printed_values
from .results import Result, results_of
from .rows import BEST, PARENT, rows_by_score
from .scales import BEST_FIRST, GIVEN, SAYING, SCALES, STAND_IN, scale_of
from .tables import TABLES

#: Rows that apply to all columns of a table, if only one column has them.
SHARED = (PARENT, "Ensemble")
HEADER = ("row", "paper", "ours", "claims", "scale")
#: What follows our number in the paper's table.
MARKS = {"agreed": " ✓", "undecided": " ○", "contradicted": " ✗"}
METRICS = {
    "accuracy": "% of test images",
    "seconds": "seconds",
    "processor_seconds": "seconds of the processor, of all threads together",
    "operations": "multiply-adds for one image, in units of one parent's",
    "rand": "adjusted Rand index",
    "below 0.1": "% of the neurons with less than a tenth of the uniform score",
    "landscape loss": "mean cross entropy of the network itself",
    "landscape accuracy": "% of the landscape's images",
    "landscape rise": "rise of the loss at a tenth of the distance between the parents, mean over directions in the "
    "plane",
    "landscape barrier": "largest rise of the loss above the line between two networks' losses",
}


class Markdown(str):
    """A text that notebooks render, and terminals print."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        return self

    __repr__ = str.__str__


@dataclass(frozen=True, repr=False)
class ReproducedColumn:
    """A column of a table at one scale, with parents of one kind; or at several scales, see `by_row`."""

    entry: Table
    column: Column
    badge: str
    """The scale, or which parents were given, and what replaces the paper's data set; of several that of most lines, the others
    have their own badges"""
    found: tuple[Result, ...] = field(compare=False)
    all_lines: tuple[Line, ...] = ()
    """The paper's rows in its order, then ours, measured or not"""
    claims: tuple[Claim, ...] = ()
    """The paper's differences between rows, and ours"""
    scales: tuple["ReproducedColumn", ...] = ()
    """The column at each scale, the fullest first, if there are several"""

    @property
    def name(self) -> str:
        """Its name in the paper, such as "2-way"."""
        return self.column.name

    @property
    def table(self) -> str:
        """Its table's name."""
        return self.entry.name

    @property
    def metric(self) -> str:
        """What its numbers are, see METRICS."""
        return self.column.metric

    @property
    def given(self) -> bool:
        """Whether the parents were given, and not trained."""
        return self.badge.startswith(GIVEN)

    @property
    def scale(self) -> str:
        """Name of the scale; given parents are fused as in the paper."""
        return "paper" if self.given else self.badge.split(",")[0]

    @property
    def substitute(self) -> str:
        """What replaces the paper's data set, such as "cifar10 for cifar100"; empty if nothing does."""
        return self.badge.rpartition(", ")[2] if self.badge.endswith(f" for {self.column.data}") else ""

    @property
    def differences(self) -> str:
        """What differs from the paper, in words."""
        return self.badge if self.given else self.badge.replace(self.scale, SCALES[self.scale].sentence, 1)

    @property
    def says(self) -> bool:
        """Whether its scale is informative about accuracy."""
        return self.scale in SAYING

    @property
    def counts(self) -> bool:
        """Whether its numbers count as measurements of the paper's: the scale is informative, and the data set is the paper's."""
        return self.says and not self.substitute

    @cached_property
    def measured(self) -> Measured:
        """The results with a number."""
        return measured_rows(self.found)

    @property
    def main(self) -> "ReproducedColumn":
        """The column at the scale of most lines only."""
        return next((each for each in self.scales if each.badge == self.badge), self)

    def at(self, scale: str) -> "ReproducedColumn":
        """The column at one of its scales only, with parents trained there if there are any.

        Args:
            scale: its name; or a badge, such as "given VGG11s of full width, 14 epochs".
        Raises:
            ValueError: it is not measured at that scale.
        """
        columns = reversed(self.scales or (self,))
        known = {name: each for each in columns for name in (each.scale, each.badge)}
        return find(known, scale, f"scale of {self.table}, {self.name}")

    def of(self, row: str) -> "ReproducedColumn":
        """The column at the scale of a row."""
        return _fullest(self.scales, row) if self.scales else self

    @property
    def lines(self) -> tuple[Line, ...]:
        """The rows that we have measured, in the paper's order."""
        return tuple(line for line in self.all_lines if line.mean is not None)

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names of the data set in use, or class indices if they are unknown."""
        from ..data.datasets import DATASETS  # imports torch

        facts = DATASETS.get(self.substitute.split(" for ")[0] or self.column.data)
        number = max((len(self.per_class(line.row)) for line in self.lines), default=0)
        names = tuple(getattr(facts, "classes", None) or ())
        return names if len(names) == number else tuple(map(str, range(number)))

    def line(self, row: str) -> Line:
        """A row, measured or not.

        Raises:
            ValueError: no row has this name.
        """
        lines = {line.row: line for line in (*map(Line, self.entry.rows), *self.all_lines)}
        return find(lines, row, f"row of {self.table}, {self.name}")

    def number(self, row: str) -> float:
        """Our mean over seeds, in the unit of the column's metric.

        Raises:
            ValueError: no such row, or it is not measured; the message then gives the reason or the command.
        """
        line = self.line(row)
        if line.mean is None:
            why = line.note or (f"measure it with: {self.command(row)}" if line.state == MISSING else line.state)
            raise ValueError(f"{row!r} of {self.table}, {self.name} has no number of ours ({self.badge}): {why}.")
        return line.mean

    def command(self, row: str, root: str = "runs") -> str:
        """The command that measures a row."""
        return self.of(row)._command(root, "--columns", self.name, "--methods", row.removesuffix(f", {BEST}"))

    def _command(self, root: str, *more: str) -> str:
        """The command that measures what is missing in the table at this scale."""
        words = [
            "retrofit",
            "reproduce",
            self.table,
            "--scale",
            self.scale,
            *([] if root == "runs" else ["--folder", root]),
        ]
        return shlex.join([*words, *more])

    def claim(self, left: str, right: str) -> Claim:
        """The paper's and our difference between two rows (or methods, or "best parent"), ours at the fullest scale with both.

        Raises:
            ValueError: the paper's table does not have this difference.
        """
        known = {f"{claim.left} - {claim.right}": claim for claim in self.claims}
        return find(known, f"{left} - {right}", f"difference of {self.table}, {self.name}")

    def gap(self, left: str, right: str) -> Gap | None:
        """Difference between the accuracies of two of our rows, in points, at the fullest scale with both; None if they have no
        common measured run.

        Raises:
            ValueError: no row has this name.
        """
        for each in self.scales:
            if (found := each.gap(left, right)) is not None:
                return dataclasses.replace(found, badge="" if each.badge == self.badge else each.badge)
        return gap(self._measured_as(left), self._measured_as(right), self.measured)

    def results(self, row: str) -> tuple[Result, ...]:
        """The results of a row, one for each measured run."""
        return tuple(self.of(row).measured.get(self._measured_as(row), {}).values())

    def per_class(self, row: str) -> tuple[float, ...]:
        """Accuracy (%) on each class, mean over seeds, (classes,); () if it was not stored."""
        by_seed = [result.metrics["per_class"] for result in self.results(row) if "per_class" in result.metrics]
        return tuple(statistics.fmean(values) for values in zip(*by_seed, strict=True) if None not in values)

    def show(self, rows: Sequence[str] | None = None, papers: bool = False) -> Markdown:
        """The table: the paper's number, ours, how many of its claims a row decides, and the scale.

        Args:
            rows: show these, in this order (default: all with a number or a reason, or the paper's if there are none).
            papers: leave out rows that the paper lacks, if it has any.
        Raises:
            ValueError: a row is unknown.
        """
        printed = [line for line in self.all_lines if line.paper is not None]
        every = printed if papers and printed else self.all_lines
        lines = (
            [self.line(row) for row in rows or ()] or [line for line in every if line.values or line.note] or printed
        )
        notes = {note: number for number, note in enumerate(dict.fromkeys(line.note for line in lines if line.note), 1)}
        cells = [
            (
                line.row,
                line.paper_words,
                line.words + (f" [{notes[line.note]}]" if line.note else ""),
                self._verdicts(line),
                (line.badge or self.badge) if line.values else "-",
            )
            for line in lines
        ]
        part = self.metric.removeprefix("part ")
        unit = METRICS.get(self.metric, f"% of the test images of part {part}'s classes")
        against = [
            f"Contradicted: {sides}, {ours} ({interval}; paper {paper}).  "
            for claim in self.claims
            if claim.verdict == "contradicted"
            for sides, paper, ours, interval, _ in [claim.words]
        ]
        return Markdown(
            "\n\n".join(
                filter(
                    None,
                    [
                        f"**{self.name}, {unit}**",
                        markdown_table(HEADER, cells, right=(1, 2)),
                        "\n".join(f"[{number}] {note}  " for note, number in notes.items()),
                        "\n".join(against),
                    ],
                )
            )
        )

    def _counts(self, line: Line) -> Counter[str]:
        """How many claims about a row have which verdict."""
        row, badge = line.stands_for or line.row, line.badge
        return Counter(claim.verdict for claim in self.claims if (claim.rows[0], claim.badge) == (row, badge))

    def beside(self, row: str) -> tuple[str, str]:
        """The paper's number of a row, and ours with its mark: see `ReproducedTable.beside_the_paper`."""
        line = next((each for each in self.all_lines if each.row == row), Line(row))
        if line.mean is None:
            return line.paper_words, "-"
        counts, at = self._counts(line), f" ({line.badge})" if line.badge else ""
        mark = next((MARKS[verdict] for verdict in ("contradicted", "undecided", "agreed") if counts[verdict]), "")
        return line.paper_words, f"{line.mean:.{1 if abs(line.mean) > 2 else 2}f}{mark}{at}"

    def _verdicts(self, line: Line) -> str:
        """How many claims about a row have which verdict, in words."""
        counts = self._counts(line)
        return ", ".join(f"{counts[verdict]} {verdict}" for verdict in DECIDED if counts[verdict]) or "-"

    def __repr__(self) -> str:
        badges = "; ".join(dict.fromkeys([self.badge, *(line.badge for line in self.lines if line.badge)]))
        return f"<{self.table}, {self.name}: {len(self.lines)} of {len(self.all_lines)} rows measured ({badges})>"

    def _measured_as(self, row: str) -> str:
        """The row whose results a row shows: equal parents are sorted by accuracy."""
        line = self.line(row)
        return line.stands_for or line.row


@dataclass(frozen=True, repr=False)
class ReproducedTable:
    """A table of the paper with our measurements."""

    table: Table
    columns: tuple[ReproducedColumn, ...]
    root: str = "runs"
    """Runs folder, for commands"""

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands that measure the paper's rows that are missing."""
        missing = [each for each in self.columns if any(line.state == MISSING for line in each.all_lines)]
        return tuple(dict.fromkeys(each._command(self.root) for each in missing if not each.given))

    @property
    def name(self) -> str:
        """Its name in TABLES."""
        return self.table.name

    def column(self, name: str | None = None) -> ReproducedColumn:
        """The first column of this name; without a name, the first measured column.

        Raises:
            ValueError: no column has this name.
        """
        if name is None:
            return next((column for column in self.columns if column.lines), self.columns[0])
        return find({column.name: column for column in reversed(self.columns)}, name, f"column of {self.name}")

    def show(self, columns: Collection[str] | None = None, papers: bool = False) -> Markdown:
        """All or some columns, with the scale of every number, and the commands that measure what is missing.

        If nothing is measured, it shows only the paper's numbers.

        Args:
            papers: as in `ReproducedColumn.show`.
        Raises:
            ValueError: a column is unknown.
        """
        wanted = [self.column(name).name for name in columns or ()]
        shown = [column for column in self.columns if not wanted or column.name in wanted]
        shown = [column for column in shown if column.lines or any(line.note for line in column.all_lines)] or shown
        commands = ["What is missing is measured by:\n\n```sh\n{}\n```".format("\n".join(self.commands))] * bool(
            self.commands
        )
        return Markdown("\n\n".join([*(column.show(papers=papers) for column in shown), *commands]))

    def beside_the_paper(self) -> Markdown:
        """The paper's table, its rows and columns in its order, with our number and the scale beside each.

        A row is marked ✓ if all its claims that ours decide agree, ○ if some stay open, ✗ if one is contradicted.
        """
        columns = [each for each in self.columns if any(line.paper is not None for line in each.all_lines)]
        header = ["", *(word for each in columns for word in (f"{each.name}, paper", f"ours, {each.badge}"))]
        scores = {
            row for row in self.table.paper_rows if not row.endswith(BEST)
        }  # "best" rows are those of short tables
        shown = [row for row in self.table.paper_rows if row in scores or scores.isdisjoint(rows_by_score((row,)))]
        rows = [[row, *chain.from_iterable(each.beside(row) for each in columns)] for row in shown]
        return Markdown(markdown_table(header, rows, right=range(1, len(header))))

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.columns))


def table(
    name: str,
    *,
    scale: str | None = None,
    columns: Sequence[str] | None = None,
    runs: str | Path = "runs",
    results: str | Path | Sequence[str | Path] = (),
) -> ReproducedTable:
    """A table of the paper with our measurements.

    Args:
        name: see `experiments.tables.TABLES`, such as "vgg11-noniid".
        scale: smoke, small, evening or paper; None shows each row at the fullest scale with a result, see `by_row`.
        columns: show only these, such as ("2-way",).
        runs: folder with results of this machine; need not exist.
        results: files of results, folders of them, or other runs folders.
    Raises:
        ValueError: no such table, column, scale or file, or a damaged one.
    """
    entry = find(TABLES, name, "table")
    paths = [results] if isinstance(results, str | Path) else results
    scales = [scale_of(scale).name] if scale else BEST_FIRST
    for column in columns or ():
        find({each.name: each for each in entry.columns}, column, f"column of {entry.name}")
    shown = reproduced_table(entry, results_of(entry.name, runs, paths), scales, columns, str(runs))
    return shown if scale else dataclasses.replace(shown, columns=by_row(shown.columns))


def reproduced_table(
    entry: Table,
    results: Sequence[Result],
    scales: Sequence[str] = BEST_FIRST,
    columns: Collection[str] | None = None,
    root: str = "runs",
) -> ReproducedTable:
    """A table with our measurements: each column at every scale and with all parents for which it was measured.

    A column without measurements appears once. What stands in for its data set is left out where the column was measured on its
    own.

    Args:
        scales: show only these.
        columns: likewise, of those that the table has (default: all).
        root: runs folder, for commands.
    """
    written: list[ReproducedColumn] = []
    for column in (each for each in entry.columns if columns is None or each.name in columns):
        by_badge: dict[str, list[Result]] = {}
        for result in results:
            if result.column == column.name:
                by_badge.setdefault(result.scale, []).append(result)
        every = [ReproducedColumn(entry, column, badge, tuple(found)) for badge, found in by_badge.items()]
        stand_in = f"{STAND_IN.get(column.data)} for {column.data}"
        own = [each for each in every if each.substitute != stand_in]
        shown = [each for each in (own if any(not each.substitute for each in own) else every) if each.scale in scales]
        shown.sort(key=lambda each: (BEST_FIRST.index(each.scale), each.substitute == stand_in, each.given))
        written += shown or [
            ReproducedColumn(entry, column, badge_of(column, "small" if len(scales) > 1 else scales[0]), ())
        ]
    written = [dataclasses.replace(each, all_lines=lines_of(entry, each.column, each.found)) for each in written]
    return ReproducedTable(entry, tuple(_with_claims(each, written) for each in written), root)


def badge_of(column: Column, scale: str) -> str:
    """What numbers of trained parents say: the scale, and what replaces the paper's data set there."""
    data = SCALES[scale].always or column.data
    return scale if data == column.data else f"{scale}, {data} for {column.data}"


def _with_claims(column: ReproducedColumn, beside: Sequence[ReproducedColumn]) -> ReproducedColumn:
    """A column's claims; parents in another column of the same badge count for this one, too."""
    if column.metric != ACCURACY:
        return column
    printed, measured = printed_values(column.entry, column.column), column.measured
    if not any(row.startswith(PARENT) for row in printed):
        for other in beside:
            values = printed_values(other.entry, other.column)
            alike = (other.badge, other.metric) == (column.badge, ACCURACY)
            if alike and any(row.startswith(PARENT) for row in values):
                printed |= {row: value for row, value in values.items() if row.startswith(SHARED)}
                measured = {**measured, **{row: of for row, of in other.measured.items() if row.startswith(SHARED)}}
                break
    claimed = (dataclasses.replace(claim, decides=column.says) for claim in claims(printed, measured))
    return dataclasses.replace(column, claims=tuple(claimed))


def by_row(columns: Sequence[ReproducedColumn]) -> tuple[ReproducedColumn, ...]:
    """Merge scales: each column once, with each row and claim at its fullest measured scale, and a badge if that is not the
    scale of most rows that the paper prints, too.

    A claim compares rows at one scale. `smoke` is not informative about accuracy: it is used only if there is nothing else.

    Args:
        columns: of one table, each at one scale.
    """
    by_name: dict[str, list[ReproducedColumn]] = {column.name: [] for column in columns}
    for column in sorted(columns, key=lambda each: BEST_FIRST.index(each.scale)):
        by_name[column.name].append(column)
    return tuple(_over_scales(tuple(each for each in same if each.says) or tuple(same)) for same in by_name.values())


def _over_scales(scales: tuple[ReproducedColumn, ...]) -> ReproducedColumn:
    """Merge one column's scales, the fullest first."""
    if len(scales) == 1:
        return scales[0]
    table = scales[0].entry
    found = dict.fromkeys(line.row for each in scales for line in each.all_lines)
    rows = [row for row in dict.fromkeys((*table.paper_rows, *table.rows, *found)) if row in found]
    of_row = {row: _fullest(scales, row) for row in rows}
    lines = {row: each.line(row) for row, each in of_row.items()}
    measured = [row for row, line in lines.items() if line.mean is not None]
    printed = [row for row in measured if lines[row].paper is not None]
    counts = Counter(of_row[row].badge for row in printed or measured)
    main = max(scales, key=lambda each: counts[each.badge])

    def badge(each: ReproducedColumn) -> str:
        return "" if each.badge == main.badge else each.badge

    claimed: dict[tuple[str, str], Claim] = {}
    for each in scales:
        for claim in each.claims:
            key = claim.left, claim.right
            if key not in claimed or claimed[key].ours is None:
                claimed[key] = dataclasses.replace(claim, badge=badge(each) if claim.ours is not None else "")
    return dataclasses.replace(
        main,
        all_lines=tuple(dataclasses.replace(line, badge=badge(of_row[row])) for row, line in lines.items()),
        claims=tuple(claimed.values()),
        scales=scales,
    )


def _fullest(scales: Sequence[ReproducedColumn], row: str) -> ReproducedColumn:
    """The fullest scale with a row. Parents share a scale, because the best one is needed, and so do a best row's scores."""

    def rank(each: ReproducedColumn) -> tuple[int, bool]:
        lines = {line.row: line for line in each.all_lines}
        together = (
            [name for name in lines if name.startswith(PARENT)] if row.startswith(PARENT) else rows_by_score((row,))
        )
        measured = sum(lines[name].mean is not None for name in together if name in lines)
        refused = row in lines and lines[row].mean is None and bool(lines[row].note)
        return measured if row in lines else -1, refused

    return max(scales, key=rank)
