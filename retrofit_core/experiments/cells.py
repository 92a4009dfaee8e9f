"""What a table of the paper measures: columns of parents and settings, and rows in words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .paper import FIGURES, paper_values
from .rows import rows_by_score


@dataclass(frozen=True)
class Column:
    """Parents, and settings for fusing and measuring them."""

    name: str
    data: str
    arch: tuple[str, ...]
    """One preset for all parents, or one for each"""
    split: str
    parts: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the RunConfig"""
    target: str | None = None
    """Preset of the fused network, if not parent 0's"""
    tuned: bool = False
    """Whether networks are fine-tuned after the fusion"""
    learning_rate: float = 3e-4
    """Learning rate of the fine-tuning"""
    metric: str = "accuracy"
    """accuracy, "part 0" (accuracy on the classes of a part), seconds, processor_seconds, operations, rand (adjusted Rand
    index), "below 0.1" (% of neurons with less than a tenth of the uniform score), "landscape loss", ..."""
    shards: str | None = None
    """The classes of each part of a sharded split; None: random"""
    many_fits: bool = False
    """Whether most of its rows are gradient fits of ViTs, which a scale may reduce further"""

    @property
    def transformer(self) -> bool:
        """Whether the parents are ViTs."""
        return self.arch[0].startswith("vit")


@dataclass(frozen=True)
class Table:
    """A table of the paper."""

    name: str
    title: str
    columns: tuple[Column, ...]
    more_rows: tuple[str, ...] = ()
    """Rows that the paper does not have"""
    has: Callable[[Column, str, int], bool] = lambda column, row, seed: True
    """Whether there is a cell of a column, a row and a seed"""
    kind: str = "networks"
    """What is measured, see `work.MEASURES`: a network for each cell, or several cells at once"""

    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels in the paper's source, the full table's first."""
        if self.name in FIGURES:
            return (FIGURES[self.name],)
        return tuple(dict.fromkeys(value.label for value in paper_values(self.name)))

    @cached_property
    def paper_rows(self) -> tuple[str, ...]:
        """The paper's rows."""
        return tuple(dict.fromkeys(value.row for value in paper_values(self.name)))

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """All measured rows."""
        return tuple(dict.fromkeys((*rows_by_score(self.paper_rows), *self.more_rows)))
