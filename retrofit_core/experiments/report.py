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
    scale: str
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

    def measured(self, least: str = SAYING[-1]) -> int:
        """How many of the paper's numbers are measured at this scale or a fuller one."""
        return sum(count.numbers for count in self._down_to(least))

    def decided(self, least: str = SAYING[-1]) -> list[Claim]:
        """The claims measured at this scale or a fuller one."""
        return [claim for count in self._down_to(least) for claim in count.claims]

    def _down_to(self, least: str) -> list[Count]:
        return [count for count in self.counts if SAYING.index(count.scale) <= SAYING.index(least)]


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
    numbers = {
        (each.table, each.name, line.row) for each in columns for line in each.all_lines if line.paper is not None
    }
    claims = {
        (each.table, each.name, claim.left, claim.right) for each in columns for claim in each.claims if claim.paper
    }
    tables = list(dict.fromkeys(each.table for each in columns))
    by_badge: dict[tuple[str, str], list[ReproducedColumn]] = {}
    fullest = sorted((each for each in columns if each.counts), key=lambda each: SAYING.index(each.scale))
    for each in sorted(fullest, key=lambda each: tables.index(each.table)):
        by_badge.setdefault((each.table, each.badge), []).append(each)
    counts, seen = [], set[tuple[str, ...]]()

    def new(*place: str) -> bool:
        """Whether a number or claim was not counted at a fuller scale."""
        is_new = place not in seen
        seen.add(place)
        return is_new

    for (table, badge), same in by_badge.items():
        printed = [(each, line) for each in same for line in each.all_lines if line.paper is not None and line.values]
        lines = sum(new(table, each.name, line.row) for each, line in printed)
        decided = tuple(
            replace(claim, column=each.name)
            for each in same
            for claim in each.claims
            if claim.is_decided and new(table, each.name, claim.left, claim.right)
        )
        if lines or decided:
            counts.append(Count(table, badge, same[0].scale, lines, decided))
    return Summary(len(numbers), len(claims), tuple(counts))


@dataclass(frozen=True)
class Report:
    """Tables, with each row at its fullest scale, and the summary of all of their scales."""

    tables: tuple[ReproducedTable, ...]
    summary: Summary

    @property
    def columns(self) -> list[ReproducedColumn]:
        """The columns of all tables."""
        return [column for table in self.tables for column in table.columns]


def report(
    results: Mapping[str, Sequence[Result]],
    scales: Sequence[str] = BEST_FIRST,
    columns: Collection[str] | None = None,
    root: str = "runs",
) -> Report:
    """Tables with all numbers in their results.

    Args:
        results: by table.
        scales, columns: show only these (default: all).
        root: runs folder, for commands.
    """
    every = [
        reproduced_table(TABLES[name], found, scales, own, root)
        for name, found in results.items()
        if (own := _own(name, columns)) is None or own
    ]
    return Report(
        tuple(replace(table, columns=by_row(table.columns)) for table in every),
        summary_of([column for table in every for column in table.columns]),
    )


def _own(table: str, columns: Collection[str] | None) -> Collection[str] | None:
    """Those of the columns that a table has."""
    return columns if columns is None else [each.name for each in TABLES[table].columns if each.name in columns]


def markdown(written: Report) -> str:
    """The claims counted, then a table for each column, of the rows that the paper prints."""
    summary = written.summary
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
    for table in written.tables:
        labels = f" ({', '.join(table.table.labels)})" if table.table.labels else ""
        parts += [f"## {table.name}: {table.table.title}{labels}", table.show(papers=True)]
    return "\n\n".join(parts) + "\n"


def spreadsheet(written: Report) -> str:
    """All numbers and claims as CSV, see `ReproducedColumn.frame`."""
    import pandas as pd

    frames = [column.frame() for column in written.columns]
    return pd.concat(frames, ignore_index=True).round(6).to_csv(index=False, lineterminator="\n")
