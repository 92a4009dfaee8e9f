"""TABLES: every table of the paper as columns, rows, and the units of work behind each cell."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..landscape import Landscape
from .paper import FIGURES, paper_values
from .rows import OTHER_PARENT_FIRST, Row, applies, read_row, scored
from .scales import Scale, data_set, network, run_settings, training
from .units import Clustering, FineTuning, Fusion, LossLandscape, Parent, Source, Unit

#: Rows that the paper lacks: controls, stronger forms of the baselines, the paper's ridge, samples of all parents.
CLOSED_FORM = (
    "KF-Linear, uniform, paper's settings",
    "KF-Linear, conductance, paper's settings",
    "KF-Linear, conductance, towards parents",
    "PLeaS",
    "PLeaS, REPAIR",
    "ZipIt",
    "ZipIt, REPAIR",
    "OTFusion, uniform, REPAIR",
    "Git-Re-Basin, conductance, REPAIR",
    "Random-Linear, uniform",
    "Random-Linear, conductance",
    "Same-Index-Linear, uniform",
    "Same-Index-Linear, conductance",
)
ALL_DATA = (
    "KF-Linear, uniform, all data",
    "KF-Linear, conductance, all data",
    "HF-Linear, conductance, all data",
    "KF-Gradient, conductance, all data",
    "LP, all data",
    "KD, all data",
)
GRADIENT_ALL_DATA = (
    "HF-Gradient, conductance, all data",
    "KF-Gradient, uniform, all data",
    "KF-Gradient, conductance, all data",
    "LP, all data",
    "KD, all data",
)


@dataclass(frozen=True)
class Column:
    """Parents, and how they are fused and measured."""

    name: str
    data: str
    arch: tuple[str, ...]
    """One preset for all parents, or one for each"""
    split: str
    parts: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the RunConfig"""
    target: str | None = None
    """Preset of the fused network, where it is not parent 0's"""
    tuned: bool = False
    """Fine-tuned after the fusion"""
    learning_rate: float = 3e-4
    """Of the fine-tuning"""
    metric: str = "accuracy"
    """accuracy, "part 0" (accuracy on the classes of a part), seconds, operations, rand (adjusted Rand index), "below 0.1" (% of
    neurons with less than a tenth of the uniform score), or "landscape loss", "landscape accuracy" and on"""
    relative: bool = False
    """In units of what parent 0 has"""
    shards: str | None = None
    """The classes of each part of a sharded split; None: dealt out by the seed"""

    def source(self, scale: Scale, train_seed: int = 0) -> Source:
        """Its parents at a scale."""
        return Source(training(scale, self.data, self.arch, self.split, self.parts, train_seed, self.shards))

    @property
    def transformer(self) -> bool:
        """Whether the parents are ViTs."""
        return self.arch[0].startswith("vit")


@dataclass(frozen=True)
class Cell:
    """One number to be measured."""

    table: str
    column: str
    row: str
    seed: int
    units: tuple[Unit, ...]
    """Their metric is added up: one, but for times that have parts"""
    metric: str
    relative_to: Unit | None = None
    """What one is, where the number is a multiple"""


@dataclass(frozen=True)
class Table:
    """A table of the paper."""

    name: str
    title: str
    columns: tuple[Column, ...]
    more_rows: tuple[str, ...] = ()
    """Rows that the paper does not have"""
    make: "Callable[[Table, Column, str, Scale, Source, int], Cell | None] | None" = None
    """In place of `usual_cell`"""

    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels in the paper's source: the full table's first."""
        if self.name in FIGURES:
            return (FIGURES[self.name],)
        return tuple(dict.fromkeys(value.label for value in paper_values(self.name)))

    @property
    def paper_rows(self) -> tuple[str, ...]:
        """The rows that the paper prints."""
        return tuple(dict.fromkeys(value.row for value in paper_values(self.name)))

    @property
    def rows(self) -> tuple[str, ...]:
        """All rows that are measured."""
        return tuple(dict.fromkeys((*scored(self.paper_rows), *self.more_rows)))

    def cells(self, scale: Scale, seeds: int | None = None, given: Source | None = None) -> list[Cell]:
        """Every cell that can be measured at a scale.

        Args:
            seeds: fusions of the same parents (default: the scale's).
            given: parents in place of the trained ones, for all columns.
        """
        make = self.make or usual_cell
        sources = {column.name: given or column.source(scale) for column in self.columns}
        cells = (
            make(self, column, name, scale, sources[column.name], seed)
            for seed in range(seeds or scale.seeds)
            for column in self.columns
            for name in self.rows
        )
        return [cell for cell in cells if cell is not None]


def usual_cell(table: Table, column: Column, name: str, scale: Scale, source: Source, seed: int) -> Cell | None:
    """The network of a row, measured, fine-tuned before where the column says so; None where the row does not apply."""
    row = read_row(name)
    if not applies(row, column.parts, len(set(column.arch)) == 1) or not _is_meant(column, row, seed):
        return None
    unit = row_unit(column, row, scale, source, seed)
    parent = Parent(source, 0, scale.test_images)
    return Cell(
        table.name, column.name, name, seed, (unit,), column.metric, relative_to=parent if column.relative else None
    )


def row_unit(column: Column, row: Row, scale: Scale, source: Source, seed: int) -> Unit:
    """The unit of a row."""
    unit: Unit
    if row.parent is not None:
        unit = Parent(source, row.parent, scale.test_images)
    else:
        settings = run_settings(scale, column.settings)
        if column.target is not None:
            settings["target"] = network(column.target, scale)
        config = row.config(settings, seed, scale.fit_epochs, column.transformer)
        order = (1, 0) if OTHER_PARENT_FIRST in row.changes else None
        unit = Fusion(source, config, scale.test_images, column.parts, order)
    return FineTuning(unit, scale.finetune_epochs, column.learning_rate) if column.tuned else unit


def _is_meant(column: Column, row: Row, seed: int) -> bool:
    """Parents and what uses no random numbers are measured once; what holds all parents cannot be fine-tuned."""
    if seed and not row.is_random:
        return False
    return not (column.tuned and row.method in ("Average", "Ensemble"))


def _ways(data: str, arch: str, split: str, numbers: tuple[int, ...], **settings: Any) -> tuple[Column, ...]:
    return tuple(Column(f"{parts}-way", data, (arch,), split, parts, settings) for parts in numbers)


def _full(data: str, arch: str, numbers: tuple[int, ...], learning_rate: float = 3e-4, **settings: Any) -> Any:
    settings = {"fusion_from": "iid", **settings}
    return tuple(
        Column(name, data, (arch,), "full", parts, settings, tuned=tuned, learning_rate=learning_rate)
        for parts in numbers
        for name, tuned in ((f"{parts}-way zero-shot", False), (f"{parts}-way fine-tuned", True))
    )


#: The paper's widths; parent 0's is the fused network's.
WIDTHS = {"0.5x": "vgg11-half", "1x": "vgg11", "2x": "vgg11-double", "4x": "vgg11-quad"}
PAIRS = ("1x, 1x", "0.5x, 0.5x", "2x, 2x", "4x, 4x", "1x, 0.5x", "1x, 2x", "1x, 4x")
NONIID_PAIR = Column("2-way", "cifar10", ("vgg11",), "dirichlet", 2)


def _widths() -> tuple[Column, ...]:
    pairs = {pair: tuple(WIDTHS[width] for width in pair.split(", ")) for pair in PAIRS}
    archs = {pair: (names[0],) if len(set(names)) == 1 else names for pair, names in pairs.items()}
    return tuple(dataclasses.replace(NONIID_PAIR, name=pair, arch=arch) for pair, arch in archs.items())


def _set_sizes() -> tuple[Column, ...]:
    sizes: dict[str, dict[str, Any]] = {
        "all sizes": {"samples": 1000},
        "5k samples": {"samples": 5000},
        "1k samples": {"samples": 1000},
        "1k samples, augmented": {"samples": 1000, "augment": 4},  # the paper does not say how many copies
    }
    return tuple(dataclasses.replace(NONIID_PAIR, name=name, settings=settings) for name, settings in sizes.items())


def set_size_cell(table: Table, column: Column, name: str, scale: Scale, source: Source, seed: int) -> Cell | None:
    """The parents stand in the column "all sizes", the fusions in the others."""
    if name.startswith("Parent") != (column.name == "all sizes"):
        return None
    return usual_cell(table, column, name, scale, source, seed)


def _against_zipit() -> tuple[Column, ...]:
    metrics = {"joint": "accuracy", "task A": "part 0", "task B": "part 1"}
    sizes = {"": 400, ", 1k samples": 1000, ", 2k samples": 2000, ", 5k samples": 5000}
    sizes |= {", 10k samples": 10_000, ", 25k samples": 25_000}
    plain = Column("", "imagenet", ("resnet50-imagenet",), "sharded", 2)
    return tuple(
        dataclasses.replace(plain, name=f"{name}{words}", metric=metric, settings={"samples": size})
        for words, size in sizes.items()
        for name, metric in metrics.items()
    )


def against_zipit_cell(table: Table, column: Column, name: str, scale: Scale, source: Source, seed: int) -> Cell | None:
    """What needs no fusion samples stands in the columns without a number; ZipIt had 25,000."""
    row = read_row(name)
    sampled = column.name.endswith("samples")
    if (row.method not in ("ZipIt", "KF-Gradient")) == sampled or (row.method == "ZipIt" and "25k" not in column.name):
        return None
    return usual_cell(table, column, name, scale, source, seed)


def _compression() -> tuple[Column, ...]:
    return tuple(
        Column(
            f"ResNet-{teacher} to ResNet-18",
            "cifar100",
            (f"resnet{teacher}",),
            "full",
            1,
            {"samples": 5000, "fusion_from": "iid"},
            target="resnet18",
        )
        for teacher in (34, 50)
    )


VIT_PAIR = Column("2-way", "cifar100", ("vit",), "sharded", 2)
TINY_FULL = _full("tiny-imagenet", "vit-tiny-imagenet", (2,), 1e-5, samples=5000)
CIFAR_FULL = _full("cifar100", "vit", (2, 4), samples=5000)


def end_to_end_cell(table: Table, column: Column, name: str, scale: Scale, source: Source, seed: int) -> Cell | None:
    """Seconds of the fusion, of its fine-tuning, and of both; what a row leaves out takes none and has no cell."""
    fusion = row_unit(TINY_FULL[0], read_row("KF-Gradient, uniform"), scale, source, seed)
    tuning = FineTuning(fusion, scale.finetune_epochs, TINY_FULL[1].learning_rate)
    columns = {"fusion": (fusion,), "fine-tuning": (tuning,), "total": (fusion, tuning)}
    rows = {
        "theoretical 0-time fusion": (tuning,),
        "ours, no fine-tuning": (fusion,),
        "ours, with fine-tuning": (fusion, tuning),
    }
    units = tuple(unit for unit in columns[column.name] if unit in rows[name])
    return Cell(table.name, column.name, name, seed, units, "seconds") if units else None


def cost_cell(table: Table, column: Column, name: str, scale: Scale, source: Source, seed: int) -> Cell | None:
    """Multiply-adds for one image, in units of one parent's, which fine-tuning does not change."""
    if name == "Average" or seed or (column.tuned and name == "Ensemble"):
        return None
    return usual_cell(table, dataclasses.replace(column, tuned=False), name, scale, source, seed)


RAND, BETWEEN_SEEDS = "adjusted Rand index to uniform", "adjusted Rand index between seeds"


def clustering_cell(table: Table, column: Column, name: str, scale: Scale, source: Source, seed: int) -> Cell | None:
    """How far clusterings of the third convolution agree; all seeds are one unit."""
    other = column.name if name == BETWEEN_SEEDS else "uniform"
    if seed or (name == RAND and column.name == "uniform"):
        return None
    unit = Clustering(source, test_images=scale.test_images)
    return Cell(table.name, column.name, name, seed, (unit,), f"rand {other} {column.name}")


#: The neurons of a histogram that hardly count.
NEAR_ZERO = "last convolution of parent 0"


def histogram_cell(table: Table, column: Column, name: str, scale: Scale, source: Source, seed: int) -> Cell | None:
    """How many neurons of the last convolution have scores near zero; the histogram itself is in the unit's result."""
    if seed:
        return None
    unit = Clustering(source, test_images=scale.test_images)
    return Cell(table.name, column.name, name, seed, (unit,), f"{column.metric} {column.name}")


#: The fused network of the landscape, and what its rows are called there: networks, then paths.
LANDSCAPE_FUSED = "KF-Gradient, deeplift"
LANDSCAPE_NETWORKS = {"Parent 0": "parent 0", "Parent 1": "parent 1", "Average": "average", LANDSCAPE_FUSED: "fused"}
LANDSCAPE_PATHS = {
    f"{first} to {last}": f"{LANDSCAPE_NETWORKS[first]} to {LANDSCAPE_NETWORKS[last]}"
    for first, last in (("Parent 0", "Parent 1"), ("Parent 0", LANDSCAPE_FUSED), ("Parent 1", LANDSCAPE_FUSED))
}
#: The paper clips the loss in its drawing; it says nothing of resolution and images.
CLIP = 4.6


def landscape_cell(table: Table, column: Column, name: str, scale: Scale, source: Source, seed: int) -> Cell | None:
    """Numbers of the picture: at the networks, around them, between them; one unit a seed of the fusion."""
    kind = column.metric.removeprefix("landscape ")
    names = LANDSCAPE_PATHS if kind == "barrier" else LANDSCAPE_NETWORKS
    if name not in names or (seed and names[name] != "fused" and "fused" not in names[name]):
        return None
    fusion = row_unit(column, read_row(LANDSCAPE_FUSED), scale, source, seed)
    assert isinstance(fusion, Fusion)
    images = min(Landscape.images, scale.test_images or Landscape.images)
    unit = LossLandscape(fusion, Landscape(images=images, clip=CLIP))
    return Cell(table.name, column.name, name, seed, (unit,), f"{kind} {names[name]}")


#: Samples as in the other experiments with ViTs; the figure's caption does not say.
VIT_NONIID = Column("loss", "cifar10", ("vit",), "dirichlet", 2, {"samples": 5000})

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            "vgg11-noniid",
            "VGG11 on CIFAR-10, non-IID splits",
            _ways("cifar10", "vgg11", "dirichlet", (2, 4, 8)),
            (*CLOSED_FORM, *ALL_DATA),
        ),
        Table(
            "vgg11-sharded",
            "VGG11 on CIFAR-10, sharded splits",
            _ways("cifar10", "vgg11", "sharded", (2, 4, 6)),
            (*CLOSED_FORM, *ALL_DATA),
        ),
        Table(
            "vgg11-full",
            "VGG11 on all of CIFAR-10, with fine-tuning",
            _full("cifar10", "vgg11", (2,)),
            ("PLeaS", "PLeaS, REPAIR", "Random-Linear, uniform", "Same-Index-Linear, uniform"),
        ),
        Table("widths", "VGG11s of different widths, non-IID CIFAR-10", _widths(), ("Random-Linear, uniform", "LP")),
        Table(
            "fusion-set-size",
            "Number of fusion samples and augmentation, non-IID CIFAR-10",
            _set_sizes(),
            ("KF-Linear, uniform", "KF-Linear, conductance"),
            set_size_cell,
        ),
        Table(
            "bloodmnist",
            "VGG11 on BloodMNIST, sharded: white blood cells, and the other two classes",
            (Column("2-way", "bloodmnist", ("vgg11",), "sharded", 2, shards="0,1,3,4,5,6;2,7"),),
            (*CLOSED_FORM, *ALL_DATA, "KF-Gradient, uniform", "KF-Gradient, conductance"),
        ),
        Table(
            "vit-sharded-cifar100",
            "ViT on CIFAR-100, sharded splits",
            _ways("cifar100", "vit", "sharded", (2, 4, 6), samples=5000),
            GRADIENT_ALL_DATA,
        ),
        Table("vit-full-cifar100", "ViT on all of CIFAR-100, with fine-tuning", CIFAR_FULL),
        Table(
            "vit-sharded-tiny-imagenet",
            "ViT on Tiny-ImageNet, sharded splits",
            _ways("tiny-imagenet", "vit-tiny-imagenet", "sharded", (2,), samples=5000),
            GRADIENT_ALL_DATA,
        ),
        Table("vit-full-tiny-imagenet", "ViT on all of Tiny-ImageNet, with fine-tuning", TINY_FULL),
        Table(
            "resnet50-imagenet",
            "ResNet-50 on two halves of 400 ImageNet classes, against ZipIt!",
            _against_zipit(),
            ("KF-Gradient, uniform, samples of B", "KF-Gradient, uniform, all data"),
            against_zipit_cell,
        ),
        Table("resnet-compression", "ResNets compressed to a ResNet-18, CIFAR-100", _compression()),
        Table(
            "runtime-vgg",
            "Seconds of a fusion, VGG11 on CIFAR-10",
            (dataclasses.replace(NONIID_PAIR, name="seconds", metric="seconds"),),
            ("HF-Gradient, uniform", "ZipIt", "PLeaS", "KD", "LP"),
        ),
        Table(
            "runtime-vit",
            "Seconds of a fusion by KF-Gradient, ViT on CIFAR-100",
            tuple(
                dataclasses.replace(VIT_PAIR, name=f"{n} samples", settings={"samples": n}, metric="seconds")
                for n in (400, 6000)
            ),
        ),
        Table(
            "runtime-end-to-end",
            "Seconds from two ViTs to a fine-tuned one, Tiny-ImageNet",
            tuple(
                dataclasses.replace(TINY_FULL[0], name=name, metric="seconds")
                for name in ("fusion", "fine-tuning", "total")
            ),
            make=end_to_end_cell,
        ),
        Table(
            "inference-cost",
            "Multiply-adds for one image, as multiples of one network's",
            tuple(dataclasses.replace(column, metric="operations", relative=True) for column in CIFAR_FULL),
            make=cost_cell,
        ),
        Table(
            "neuron-importance",
            "Clusterings of VGG11's third convolution by different scores",
            tuple(
                dataclasses.replace(NONIID_PAIR, name=name, metric="rand")
                for name in ("uniform", "conductance", "deeplift")
            ),
            (BETWEEN_SEEDS,),
            clustering_cell,
        ),
        Table(
            "importance-histogram",
            "Importance scores near zero, VGG11 on non-IID CIFAR-100",
            tuple(
                Column(name, "cifar100", ("vgg11",), "dirichlet", 2, metric="below 0.1")
                for name in ("conductance", "deeplift")
            ),
            (NEAR_ZERO,),
            histogram_cell,
        ),
        Table(
            "landscape",
            "Loss landscape of ViTs on non-IID CIFAR-10 and of KF-Gradient with DeepLIFT",
            tuple(
                dataclasses.replace(VIT_NONIID, name=name, metric=f"landscape {name}")
                for name in ("loss", "accuracy", "rise", "barrier")
            ),
            (*LANDSCAPE_NETWORKS, *LANDSCAPE_PATHS),
            landscape_cell,
        ),
    )
}


def substitute(column: Column, scale: Scale) -> str | None:
    """The data set that serves in place of the column's own; None where that is there."""
    served = data_set(column.data, scale)
    return None if served == column.data else served
