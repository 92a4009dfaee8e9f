"""What a report consists of: lines of columns of tables, each a number of the paper beside ours."""

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
    """Ours, (sets of parents, fusion seeds), as far as they are measured"""
    note: str = ""
    """Why it was refused, or the row that the number belongs to"""
    command: str = ""
    """Does the work of the first seed that is missing, or of the first"""
    stands_for: str = ""
    """The row of ours whose numbers these are, where that is another one"""

    images: int = 0
    """Test images behind ours"""
    badge: str = ""
    """Of ours, where it is another one than the block's"""

    @property
    def values(self) -> tuple[float, ...]:
        """Ours, of all parents and seeds."""
        return tuple(value for of_parents in self.by_parents for value in of_parents)

    @property
    def mean(self) -> float | None:
        """Ours: over parents, of each over its seeds."""
        return statistics.fmean(map(statistics.fmean, self.by_parents)) if self.by_parents else None

    @property
    def deviation(self) -> float | None:
        """Of ours over parents, or over the seeds of a single set of parents (of a sample: n - 1), in the metric's unit."""
        several = len(self.by_parents) > 1
        values = [statistics.fmean(values) for values in self.by_parents] if several else self.values
        return statistics.stdev(values) if len(values) > 1 else None

    @property
    def spread(self) -> "Spread":
        """What moves one number of ours, as far as parents and seeds were repeated."""
        return spread(self.by_parents, self.images)

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, in the metric's unit (points where that is a percentage)."""
        return None if self.mean is None or self.paper is None else self.mean - self.paper.mean

    @property
    def reach(self) -> float | None:
        """Two standard errors of the difference, in the metric's unit, if each of our sets of parents has the paper's
        deviation; None where the paper prints none, or nothing is measured."""
        if self.difference is None or self.paper is None or self.paper.deviation is None:
            return None
        of_mean = 1 / self.paper.seeds if self.paper.seeds else 0.0
        return 2 * self.paper.deviation * math.sqrt(of_mean + 1 / len(self.by_parents))

    @property
    def is_within(self) -> bool | None:
        """Whether ours may be further seeds of the paper: the difference is at most its reach, where that is known."""
        return None if self.difference is None or self.reach is None else abs(self.difference) <= self.reach


@dataclass(frozen=True)
class Spread:
    """Standard deviations of one accuracy, in points; None where a record has no repetition, or no accuracy."""

    parents: float | None
    """Over splits and trainings, without what fusion seeds add"""
    fusion: float | None
    """Over fusion seeds of the same parents"""
    images: float | None
    """Over draws of as many test images"""


def spread(by_parents: Sequence[Sequence[float]], images: int) -> Spread:
    """The parts of a nested analysis of variance: fusion seeds within sets of parents.

    Args:
        by_parents: accuracies in %, (sets of parents, fusion seeds); sets may have different numbers of seeds.
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
    """The scale, and what serves in place of the paper's data set or of trained parents"""
    lines: tuple[Line, ...]
    scale: str = ""
    """Name of the scale; empty where nothing here measures the numbers"""
    parents: tuple[str, ...] = ()
    """Names of the checkpoints that were given"""
    ranked: Order | None = None
    """Over all methods that both have; None if there is no order, or the numbers are not accuracies"""
    ranked_own: Order | None = None
    """Of the rows of the paper's own methods"""
    claims: tuple[Claim, ...] = ()
    measured: int = 0
    """Cells with a number or a refusal, one for each seed that is meant"""
    cells: int = 0


@dataclass(frozen=True)
class TableReport:
    """One table of the paper."""

    name: str
    title: str
    labels: tuple[str, ...]
    blocks: tuple[Block, ...]
    commands: tuple[str, ...] = ()
    """Measure what is missing"""
