"""Tables of the paper: columns, rows, and the units of work of each cell."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from .paper import FIGURES, paper_values
from .rows import OTHER_PARENT_FIRST, Row, applies, config_of, impossible, read_row, rows_by_score
from .scales import Scale, network, run_settings, training
from .units import FineTuning, Fusion, Parent, ParentSource, TunedEnsemble, Unit


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
    relative: bool = False
    """Whether numbers are multiples of parent 0's"""
    shards: str | None = None
    """The classes of each part of a sharded split; None: random"""
    many_fits: bool = False
    """Whether most of its rows are gradient fits of ViTs, which a scale may reduce further"""

    def source(self, scale: Scale, train_seed: int = 0) -> ParentSource:
        """Its parents at a scale."""
        scale = self.scale(scale)
        return ParentSource(training(scale, self.data, self.arch, self.split, self.parts, train_seed, self.shards))

    def scale(self, scale: Scale) -> Scale:
        """The scale for this column."""
        return dataclasses.replace(scale, **scale.many_fits) if self.many_fits else scale

    @property
    def transformer(self) -> bool:
        """Whether the parents are ViTs."""
        return self.arch[0].startswith("vit")


@dataclass(frozen=True)
class Cell:
    """One number to measure."""

    units: tuple[Unit, ...]
    """Units whose metrics are summed: one, except for times of several parts"""
    metric: tuple[str, ...]
    """The number of a unit's result, see `Result.metric`"""
    relative_to: Unit | None = None
    """The unit to divide by, if the number is a multiple"""
    column: str = ""
    row: str = ""
    seed: int = 0
    parents: int = 0
    """Set of parents: the seed of their split and training"""


@dataclass(frozen=True)
class Table:
    """A table of the paper."""

    name: str
    title: str
    columns: tuple[Column, ...]
    more_rows: tuple[str, ...] = ()
    """Rows that the paper does not have"""
    make: "Callable[[Column, str, Scale, ParentSource, int], Cell | None] | None" = None
    """Replaces `usual_cell`: column, row, the column's scale, parents, seed -> the cell without its place; None for none"""

    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels in the paper's source, the full table's first."""
        if self.name in FIGURES:
            return (FIGURES[self.name],)
        return tuple(dict.fromkeys(value.label for value in paper_values(self.name)))

    @property
    def paper_rows(self) -> tuple[str, ...]:
        """The paper's rows."""
        return tuple(dict.fromkeys(value.row for value in paper_values(self.name)))

    @property
    def rows(self) -> tuple[str, ...]:
        """All measured rows."""
        return tuple(dict.fromkeys((*rows_by_score(self.paper_rows), *self.more_rows)))

    def cells(
        self, scale: Scale, seeds: int | None = None, given: ParentSource | None = None, parents: int = 1
    ) -> list[Cell]:
        """All cells that can be measured at a scale.

        Args:
            seeds: number of fusions of the same parents (default: the scale's).
            given: parents in place of trained ones, for all columns.
            parents: number of sets of parents, each with its own split and trainings; one if they are given.
        """
        make = self.make or usual_cell
        cells = []
        for index in range(1 if given else parents):
            sources = {column.name: given or column.source(scale, index) for column in self.columns}
            for seed, column, row in product(range(seeds or scale.seeds), self.columns, self.rows):
                if cell := make(column, row, column.scale(scale), sources[column.name], seed):
                    cells.append(dataclasses.replace(cell, column=column.name, row=row, seed=seed, parents=index))
        return cells


def usual_cell(column: Column, name: str, scale: Scale, source: ParentSource, seed: int) -> Cell | None:
    """The cell that measures a row's network, fine-tuned if the column says so; None if the row does not apply."""
    row = read_row(name)
    if (
        impossible(row)
        or not applies(row, column.parts, len(set(column.arch)) == 1)
        or (seed and not row.is_random)
        or (column.tuned and row.method == "Average")  # as in the paper
    ):
        return None
    parent = Parent(source, 0, scale.test_images) if column.relative else None
    return Cell((row_unit(column, row, scale, source, seed),), tuple(column.metric.split()), parent)


def row_unit(column: Column, row: Row, scale: Scale, source: ParentSource, seed: int) -> Unit:
    """The unit of a row."""

    def tuned(unit: Unit) -> FineTuning:
        return FineTuning(unit, scale.finetune_epochs, column.learning_rate)

    if column.tuned and row.method == "Ensemble":
        return TunedEnsemble(tuple(tuned(Parent(source, index, scale.test_images)) for index in range(column.parts)))
    unit: Unit
    if row.parent is not None:
        unit = Parent(source, row.parent, scale.test_images)
    else:
        settings = run_settings(scale, column.settings)
        if column.target is not None:
            settings["target"] = network(column.target, scale, scale.always or column.data)
        config = config_of(row, frozenset(settings.items()), seed, scale.fit_epochs, column.transformer)
        order = (1, 0) if OTHER_PARENT_FIRST in row.changes else None
        unit = Fusion(source, config, scale.test_images, column.parts, order)
    return tuned(unit) if column.tuned else unit
