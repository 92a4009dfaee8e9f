"""A report: the paper's tables next to ours, how many of its numbers are measured, and how many of its claims hold."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..system.tables import markdown_table
from .claims import DECIDED, INFORMATIVE, Claim
from .reproduction import ReproducedColumn, ReproducedTable, by_row, reproduced_table
from .results import Result
from .scales import BEST_FIRST
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
    printed, claims, seen, counts = set[Any](), set[Any](), set[Any](), dict[tuple[str, str], Count]()
    tables = list(dict.fromkeys(each.table for each in columns))

    def order(each: ReproducedColumn) -> tuple[int, int]:
        return tables.index(each.table), BEST_FIRST.index(each.scale)

    for each in sorted(columns, key=order):
        place = each.table, each.name
        lines = {(*place, line.row): line for line in each.all_lines if line.paper is not None}
        claimed = {(*place, claim.left, claim.right): claim for claim in each.claims if claim.paper}
        printed |= lines.keys()
        claims |= claimed.keys()
        if each.counts:
            measured = {name for name, line in lines.items() if line.values} - seen  # not counted at a fuller scale
            decided = [name for name, claim in claimed.items() if claim.gap is not None and name not in seen]
            before = counts.setdefault((each.table, each.badge), Count(each.table, each.badge, 0, ()))
            counts[each.table, each.badge] = replace(
                before,
                numbers=before.numbers + len(measured),
                claims=(*before.claims, *(replace(claimed[name], column=each.name) for name in decided)),
            )
            seen |= {*measured, *decided}
    return Summary(len(printed), len(claims), tuple(each for each in counts.values() if each.numbers or each.claims))


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
