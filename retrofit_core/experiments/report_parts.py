"""Parts of a report: tables, their columns, and their lines with the paper's number and ours."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from .claims import Claim, Order
from .paper import Value


@dataclass(frozen=True)
class Line:
    """A row of a column: the paper's number and ours, in the unit of the column's metric (`report_words.METRICS`)."""

    row: str
    paper: Value | None
    state: str
    by_parents: tuple[tuple[float, ...], ...] = ()
    """Our measured numbers, (sets of parents, fusion seeds)"""
    note: str = ""
    """Why it was refused, or the row that the number belongs to"""
    command: str = ""
    """Command for the first missing seed, or for the first one"""
    stands_for: str = ""
    """Our row with these numbers, if another one"""

    images: int = 0
    """Number of test images behind ours"""
    badge: str = ""
    """Badge of ours, if not the block's"""
    substitute: str = ""
    """What replaces the paper's data set, see `Block`"""

    @property
    def values(self) -> tuple[float, ...]:
        """Our numbers for all parents and seeds."""
        return tuple(value for of_parents in self.by_parents for value in of_parents)

    @property
    def mean(self) -> float | None:
        """Our mean over parents of their means over seeds."""
        return statistics.fmean(map(statistics.fmean, self.by_parents)) if self.by_parents else None

    @property
    def deviation(self) -> float | None:
        """Our sample standard deviation over parents, or over the seeds of a single set of parents, in the metric's unit."""
        several = len(self.by_parents) > 1
        values = [statistics.fmean(values) for values in self.by_parents] if several else self.values
        return statistics.stdev(values) if len(values) > 1 else None

    @property
    def spread(self) -> "Spread":
        """Sources of the variation of our number, if parents or seeds were repeated."""
        return spread(self.by_parents, self.images)

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, in the metric's unit (points for percentages)."""
        return None if self.mean is None or self.paper is None else self.mean - self.paper.mean

    @property
    def reach(self) -> float | None:
        """Two standard errors of the difference, in the metric's unit, if our sets of parents have the paper's deviation; None
        if the paper prints none, nothing is measured, or the data set is another one."""
        if self.difference is None or self.paper is None or self.paper.deviation is None or self.substitute:
            return None
        of_mean = 1 / self.paper.seeds if self.paper.seeds else 0.0
        return 2 * self.paper.deviation * math.sqrt(of_mean + 1 / len(self.by_parents))

    @property
    def is_within(self) -> bool | None:
        """Whether ours may be further seeds of the paper: whether the difference is at most `reach`; None if unknown."""
        return None if self.difference is None or self.reach is None else abs(self.difference) <= self.reach


@dataclass(frozen=True)
class Spread:
    """Standard deviations of one accuracy, in points; None without repetitions or accuracy."""

    parents: float | None
    """Over splits and trainings, without that of fusion seeds"""
    fusion: float | None
    """Over fusion seeds of the same parents"""
    images: float | None
    """Over samples of test images"""


def spread(by_parents: Sequence[Sequence[float]], images: int) -> Spread:
    """Nested analysis of variance: fusion seeds within sets of parents.

    Args:
        by_parents: accuracies in %, (sets of parents, fusion seeds); numbers of seeds may differ.
    """
    repeated = [values for values in by_parents if len(values) > 1]
    within = sum(statistics.variance(values) * (len(values) - 1) for values in repeated)
    fusion = within / sum(len(values) - 1 for values in repeated) if repeated else None
    parents = None
    if len(by_parents) > 1:
        between = statistics.variance(map(statistics.fmean, by_parents))
        noise = (fusion or 0.0) * statistics.fmean(1 / len(values) for values in by_parents)
        parents = max(0.0, between - noise)
    share = statistics.fmean(map(statistics.fmean, by_parents)) / 100 if by_parents else 0.0
    return Spread(
        None if parents is None else math.sqrt(parents),
        None if fusion is None else math.sqrt(fusion),
        100 * math.sqrt(share * (1 - share) / images) if images else None,
    )


@dataclass(frozen=True)
class Block:
    """A column of a table at one scale, with parents of one kind."""

    column: str
    metric: str
    badge: str
    """The scale, and what replaces the paper's data set or trained parents"""
    lines: tuple[Line, ...]
    scale: str = ""
    """Name of the scale; empty for numbers that cannot be measured here"""
    parents: tuple[str, ...] = ()
    """Names of given checkpoints"""
    ranked: Order | None = None
    """Order of all common methods; None if there is none, or numbers are not accuracies"""
    ranked_own: Order | None = None
    """Order of the paper's own methods"""
    claims: tuple[Claim, ...] = ()
    measured: int = 0
    """Number of cells with a number or a refusal, of all expected seeds"""
    cells: int = 0
    substitute: str = ""
    """What replaces the paper's data set, such as "cifar10 for cifar100", so that nothing here counts as a measurement of the
    paper's numbers and claims; empty if nothing does"""


@dataclass(frozen=True)
class TableReport:
    """One table of the paper."""

    name: str
    title: str
    labels: tuple[str, ...]
    blocks: tuple[Block, ...]
    commands: tuple[str, ...] = ()
    """Commands that measure what is missing"""
