"""The configs behind a cell: its parents' training, and its fusion, at a scale."""

import dataclasses
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from ..methods import METHODS
from ..networks.architectures import parse
from ..networks.architectures.vgg import PLANS, POOL, scaled
from ..runs.config import RunConfig
from ..system.registry import find
from ..training.config import AUTO, TrainConfig
from .cells import Column, Table
from .rows import OF_ALL_DATA, OPTIONS, Row, read_row
from .scales import SCALES, USUAL, Scale, scale_of
from .tables import TABLES


@dataclass(frozen=True)
class Cell:
    """One number to measure, by its names; `Result` says what they are."""

    table: str
    column: str
    row: str
    scale: str
    parents: int = 0
    seed: int = 0

    def __str__(self) -> str:
        parents = f", parents {self.parents}" * bool(self.parents)
        return f"{self.row} ({self.table}, {self.column}, {self.scale}{parents}, seed {self.seed})"

    @property
    def of(self) -> Column:
        """Its column."""
        return find({column.name: column for column in TABLES[self.table].columns}, self.column, "column")

    @property
    def reduced(self) -> Scale:
        """The scale for its column."""
        scale = SCALES[self.scale]
        return dataclasses.replace(scale, **scale.many_fits) if self.of.many_fits else scale

    @property
    def training(self) -> TrainConfig:
        """Of its parents."""
        column, scale = self.of, self.reduced
        data = scale.always or column.data
        return TrainConfig(
            data=data,
            arch=tuple(network(name, scale, data) for name in column.arch),
            split=column.split,
            parts=column.parts,
            shards=column.shards if data == column.data else None,  # classes of the column's own data set
            recipe=scale.recipe,
            epochs=scale.epochs,
            augment=AUTO if data == "digits" else scale.augment,
            seed=self.parents,
        )

    def fusion(self, name: str | None = None) -> RunConfig:
        """Its row's fusion, or that of another row, without the parents' files."""
        row, column, scale = read_row(name or self.row), self.of, self.reduced
        most = scale.samples or sys.maxsize
        samples = column.settings.get("samples", USUAL)
        samples = min(samples, max(USUAL, round(scale.share * samples)), most)
        settings = {**column.settings, "samples": samples, "importance_samples": min(USUAL, most)}
        if column.target is not None:
            settings["target"] = network(column.target, scale, scale.always or column.data)
        if OF_ALL_DATA in row.changes:
            settings["fusion_from"] = "iid"
        name, own = row.variant
        options, method = dict(own), METHODS[name]
        if method.fixed.get("fit") == "ridge" and "paper's settings" not in row.changes:
            options["toward"] = "zero"  # as in the paper
        if scale.fit_epochs is not None and (method.keywords().get("epochs") or 0) > scale.fit_epochs:
            options["epochs"] = scale.fit_epochs
        if column.transformer and row.importance == "deeplift":
            options["fallback"] = "gradient"  # as Captum does silently
        for words in row.changes:
            options |= OPTIONS.get(words, {})
        return RunConfig(
            (), method=name, importance=row.importance, seed=self.seed, options=options or None, **settings
        )


def cells_of(table: Table, scale: str, seeds: int | None = None, parents: int = 1) -> Iterator[Cell]:
    """All cells that can be measured at a scale.

    Args:
        seeds: number of fusions of the same parents (default: the scale's).
        parents: number of sets of parents, each with its own split and trainings.
    """
    runs = product(range(parents), range(seeds or scale_of(scale).seeds))
    for (index, seed), column, row in product(runs, table.columns, table.rows):
        if table.has(column, row, seed) and (table.kind != "networks" or applies(read_row(row), column, seed)):
            yield Cell(table.name, column.name, row, scale_of(scale).name, index, seed)


def applies(row: Row, column: Column, seed: int = 0) -> bool:
    """Whether a row's network can be made of a column's parents, and depends on the seed."""
    if row.parent is not None:
        return row.parent < column.parts and not seed
    if row.method.startswith("Transformer-OTFusion") and row.importance == "deeplift":
        return False  # DeepLIFT is known at the ends of levels only, and this method weighs neurons inside of blocks
    if (seed and not row.is_random) or (column.tuned and row.method == "Average"):  # as in the paper
        return False
    takes = METHODS[row.variant[0]].takes
    least, most = takes.parents
    equal = len(set(column.arch)) == 1
    return least <= column.parts and (most is None or column.parts <= most) and (equal or not takes.equal_widths)


def network(name: str, scale: Scale, data: str) -> str:
    """A network of the paper at a scale, for `TrainConfig.arch` and `RunConfig.target`.

    Args:
        name: a preset, such as "vgg11" or "resnet34".
        data: the data set in use.
    """
    spec = parse(name)
    if spec["architecture"] == "vgg" and scale.plan:
        relative = int(spec["plan"][2]) / int(PLANS["vgg11"][2])  # to the usual VGG11, in the width study
        spec["plan"] = scaled(scale.plan, relative)
    elif spec["architecture"] == "vgg" and scale.width != 1:
        spec["plan"] = [item if item == POOL else max(4, round(item * scale.width)) for item in spec["plan"]]
    elif spec["architecture"] == "resnet" and scale.width != 1:
        narrower = scale.resnet_width if data != "digits" else None
        spec["width"] = max(4, round(64 * (narrower or scale.width)))
    elif spec["architecture"] == "vit" and scale.vit:
        wide = spec["mlp_width"] / 384
        spec |= {**scale.vit, "mlp_width": round(scale.vit["mlp_width"] * wide)}
    else:
        return name
    return json.dumps(spec)
