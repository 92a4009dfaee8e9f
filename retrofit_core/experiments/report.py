"""A report: the paper's tables next to ours, how many of its numbers are measured, and how many of its claims hold."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from .bundles import Bundle
from .claims import DECIDED, Claim
from .lines import MEASURED, REFUSED
from .reproduction import ReproducedColumn, ReproducedTable, reproduced
from .results import Result, machine_words
from .scales import SAYING, Scale
from .setting import settings
from .tables import TABLES


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
    count, and neither does what was measured on another data set than the paper's: that is summarised apart.
    """

    numbers: int
    """Numbers that the paper prints in these tables"""
    claims: int
    """Its claims in them: nonzero differences"""
    counts: tuple[Count, ...]
    """By table, then by scale, the fullest first"""
    substituted: tuple[Count, ...] = ()
    """The same of what was measured on another data set than the paper's, which `measured` and `decided` leave out"""

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
    reached = Counter(claim.verdict for claim in claims)
    agreed, undecided, contradicted = (reached[verdict] for verdict in DECIDED)
    return agreed, undecided, contradicted


def summarised(columns: Sequence[ReproducedColumn]) -> Summary:
    """The summary of the columns of tables, including unmeasured lines and claims."""
    numbers = {
        (each.table, each.name, line.row) for each in columns for line in each.all_lines if line.paper is not None
    }
    claims = {
        (each.table, each.name, claim.left, claim.right) for each in columns for claim in each.claims if claim.paper
    }
    own = [each for each in columns if not each.setting.substitute]
    others = [each for each in columns if each.setting.substitute]
    return Summary(len(numbers), len(claims), _counts(own), _counts(others))


def _counts(columns: Sequence[ReproducedColumn]) -> tuple[Count, ...]:
    """How many numbers and claims are measured in each table, at each scale; each counts once."""
    tables = list(dict.fromkeys(each.table for each in columns))
    alike: dict[tuple[str, str], list[ReproducedColumn]] = {}
    for each in sorted(
        (each for each in columns if each.says),
        key=lambda each: (tables.index(each.table), SAYING.index(each.setting.scale.name)),
    ):
        alike.setdefault((each.table, each.badge), []).append(each)
    counts, known = [], set[tuple[str, ...]]()
    for (table, badge), same in alike.items():
        numbers = {
            (table, each.name, line.row)
            for each in same
            for line in each.all_lines
            if line.paper is not None and line.values
        } - known
        claims = {
            (table, each.name, claim.left, claim.right): replace(claim, column=each.name)
            for each in same
            for claim in each.claims
            if claim.is_decided and (table, each.name, claim.left, claim.right) not in known
        }
        known |= numbers | claims.keys()
        if numbers or claims:
            counts.append(Count(table, badge, same[0].setting.scale.name, len(numbers), tuple(claims.values())))
    return tuple(counts)


@dataclass(frozen=True)
class Report:
    """Tables, and facts about all of them."""

    scales: tuple[Scale, ...]
    tables: tuple[ReproducedTable, ...]
    summary: Summary
    """Summary of all tables, including lines that are not shown"""
    machines: tuple[tuple[str, int], ...] = ()
    """The machines that measured the results, with the number of results"""
    others: int = 0
    """Number of results that belong to no cell of these tables"""

    @property
    def columns(self) -> list[ReproducedColumn]:
        """The columns of all tables."""
        return [column for table in self.tables for column in table.columns]

    def counts(self) -> dict[str, tuple[int, int]]:
        """Badge -> measured cells, all cells."""
        measured, cells = Counter[str](), Counter[str]()
        for column in self.columns:
            measured[column.badge] += column.setting.measured
            cells[column.badge] += len(column.setting.meant)
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
        tables: names in TABLES.
        scales: the first one shows all columns, the others those with results.
        seeds: expected number of fusions (default: the scale's); further results are shown too.
        columns: show only these (default: all).
        root: runs folder, for commands.
        only_measured: leave out lines, columns and tables without a number or a refusal.
    """
    every = [
        reproduced(TABLES[name], settings(TABLES[name], bundle, scales, seeds, columns), root, seeds) for name in tables
    ]
    shown = [_measured_alone(table) for table in every] if only_measured else every
    of_all = [column for table in every for column in table.columns]
    used = {
        result.key: result for column in of_all for known in column.setting.known for result in known.results if result
    }
    return Report(
        tuple(scales),
        tuple(table for table in shown if table.columns),
        summarised(of_all),
        _machines(used.values()),
        len(bundle.results) - len(used),
    )


def _machines(results: Iterable[Result]) -> tuple[tuple[str, int], ...]:
    """Machines with versions and all commits, and their numbers of results, most first."""
    by_machine: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda result: result.finished):
        by_machine.setdefault(result.measured_on, []).append(result)
    written = [(machine_words(same), len(same)) for same in by_machine.values()]
    return tuple(sorted(written, key=lambda one: -one[1]))


def _measured_alone(table: ReproducedTable) -> ReproducedTable:
    """A table without lines, claims and columns that lack both number and refusal."""
    columns = [
        replace(
            column,
            all_lines=tuple(line for line in column.all_lines if line.state in (MEASURED, REFUSED)),
            claims=tuple(claim for claim in column.claims if claim.ours is not None),
        )
        for column in table.columns
    ]
    return replace(table, columns=tuple(column for column in columns if column.all_lines))
