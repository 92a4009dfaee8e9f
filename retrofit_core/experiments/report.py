"""A report: the paper's tables next to ours, how many of its numbers are measured, and how many of its claims hold."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..system.tables import markdown_table
from .claims import DECIDED, INFORMATIVE, Claim
from .reproduction import ReproducedColumn, ReproducedTable, by_row, reproduced_table
from .results import Result
from .scales import BEST_FIRST, SAYING
from .tables import TABLES

SUMMARY_HEADER = ("table", "numbers", "easy opponents", "informative ones", "of these clear in the paper", "scale")
READING = (
    "Ours: mean ± standard deviation (fusions) over fusions of the same parents, or over sets of parents. A claim is a "
    "difference between two methods: agreed / undecided (our 95 % interval contains 0) / contradicted. See docs/statistics.md."
)


@dataclass(frozen=True)
class Count:
    """Measurements of a table at one scale, with parents of one kind."""

    table: str
    badge: str
    numbers: int
    """How many of the paper's numbers are measured"""
    claims: tuple[Claim, ...]
    """Decided claims: agreed, undecided or contradicted"""


@dataclass(frozen=True)
class Summary:
    """How many of the paper's numbers are measured, and how many of its claims hold.

    Each number and claim counts once, at its fullest measured scale. `smoke`, which is not informative about accuracy, does not
    count, and neither does what was measured on another data set than the paper's.
    """

    numbers: int
    """Numbers that the paper prints in these tables"""
    claims: int
    """Its claims in them: nonzero differences"""
    counts: tuple[Count, ...]
    """By table, then by scale, the fullest first"""

    def measured(self) -> int:
        """How many of the paper's numbers are measured."""
        return sum(count.numbers for count in self.counts)

    def decided(self) -> list[Claim]:
        """The measured claims."""
        return [claim for count in self.counts for claim in count.claims]


def verdicts(claims: Iterable[Claim]) -> tuple[int, int, int]:
    """Numbers of agreed, undecided and contradicted claims."""
    counts = Counter(claim.verdict for claim in claims)
    agreed, undecided, contradicted = (counts[verdict] for verdict in DECIDED)
    return agreed, undecided, contradicted


def opponents(claims: Iterable[Claim]) -> tuple[list[Claim], list[Claim], list[Claim]]:
    """The claims against easy opponents, against informative ones, and those of the latter beyond the paper's own noise."""
    easy, informative = [], []
    for claim in claims:
        (informative if claim.group == INFORMATIVE else easy).append(claim)
    return easy, informative, [each for each in informative if each.deviation is not None and not each.is_noise]


def summary_of(columns: Sequence[ReproducedColumn]) -> Summary:
    """The summary of the columns of tables, including unmeasured lines and claims."""
    printed = {
        (each.table, each.name, line.row) for each in columns for line in each.all_lines if line.paper is not None
    }
    claims = {
        (each.table, each.name, claim.left, claim.right) for each in columns for claim in each.claims if claim.paper
    }
    tables = list(dict.fromkeys(each.table for each in columns))
    counted = [each for each in columns if each.counts]
    counts, seen = {}, set[tuple[str, ...]]()
    for each in sorted(counted, key=lambda each: (tables.index(each.table), SAYING.index(each.scale))):
        numbers, decided = counts.setdefault((each.table, each.badge), ([], []))
        lines = [line.row for line in each.all_lines if line.paper is not None and line.values]
        found = {(each.table, each.name, row): None for row in lines}
        found |= {
            (each.table, each.name, claim.left, claim.right): replace(claim, column=each.name)
            for claim in each.claims
            if claim.is_decided
        }
        for place, claim in found.items():
            if place not in seen:  # not counted at a fuller scale
                (numbers if claim is None else decided).append(claim)
        seen |= found.keys()
    written = [
        Count(table, badge, len(numbers), tuple(decided)) for (table, badge), (numbers, decided) in counts.items()
    ]
    return Summary(len(printed), len(claims), tuple(each for each in written if each.numbers or each.claims))


def report(
    results: Mapping[str, Sequence[Result]],
    scales: Sequence[str] = BEST_FIRST,
    columns: Collection[str] | None = None,
    root: str = "runs",
) -> list[ReproducedTable]:
    """Tables with all numbers in their results, each column at every scale.

    Args:
        results: by table.
        scales, columns: show only these (default: all).
        root: runs folder, for commands.
    """
    tables = [reproduced_table(TABLES[name], found, scales, columns, root) for name, found in results.items()]
    return [table for table in tables if table.columns]


def summary_of_tables(tables: Sequence[ReproducedTable]) -> Summary:
    """The summary of the columns of tables."""
    return summary_of([column for table in tables for column in table.columns])


def markdown(tables: Sequence[ReproducedTable]) -> str:
    """The claims counted, then a table for each column, of the rows that the paper prints."""
    summary = summary_of_tables(tables)
    rows = [
        (
            count.table,
            str(count.numbers),
            *(" / ".join(map(str, verdicts(group))) if group else "-" for group in opponents(count.claims)),
            count.badge,
        )
        for count in summary.counts
    ]
    agreed, undecided, contradicted = verdicts(summary.decided())
    parts = [
        "# The paper's numbers, and ours",
        f"Of {summary.numbers} numbers that the paper prints here, {summary.measured()} are measured; of {summary.claims} claims "
        f"{agreed} agreed, {undecided} undecided, {contradicted} contradicted.",
        READING,
        *([markdown_table(SUMMARY_HEADER, rows, right=range(1, 5))] if rows else []),
    ]
    for table in tables:
        labels = f" ({', '.join(table.table.labels)})" if table.table.labels else ""
        shown = replace(table, columns=by_row(table.columns))
        parts += [f"## {table.name}: {table.table.title}{labels}", shown.show(papers=True)]
    return "\n\n".join(parts) + "\n"


def spreadsheet(tables: Sequence[ReproducedTable]) -> str:
    """All numbers and claims as CSV, each row at its fullest scale, see `ReproducedColumn.frame`."""
    import pandas as pd

    frames = [column.frame() for table in tables for column in by_row(table.columns)]
    return pd.concat(frames, ignore_index=True).round(6).to_csv(index=False, lineterminator="\n")
