"""TABLES: all tables of the paper, and ours, with columns, rows, and each cell's units of work."""

import dataclasses
from typing import Any

from ..inspection.landscape import Landscape
from .ablation import ABLATION
from .beyond import BEYOND
from .cells import Cell, Column, Table, row_unit, usual_cell
from .rows import read_row
from .scales import Scale
from .units import Clustering, FineTuning, Fusion, LossLandscape, ParentSource

#: Two ways of preserving silent neurons (docs/findings.md).
AGAINST_SILENCE = (
    "HF-Linear, uniform, REPAIR",
    "HF-Linear, uniform, by activity",
    "HF-Linear, conductance, by activity",
    "KF-Linear, uniform, REPAIR",
    "KF-Linear, uniform, by activity",
    "KF-Linear, uniform, by activity, REPAIR",
    "KF-Linear, conductance, by activity",
)
#: Rows that the paper lacks: controls, stronger baselines, the paper's ridge, samples of all parents.
CLOSED_FORM = (
    *AGAINST_SILENCE,
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
    "KF-Linear, uniform, neuron i with neuron i",
    "KF-Linear, conductance, neuron i with neuron i",
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


def _ways(data: str, arch: str, split: str, numbers: tuple[int, ...], **settings: Any) -> tuple[Column, ...]:
    vits = arch.startswith("vit")
    return tuple(Column(f"{parts}-way", data, (arch,), split, parts, settings, many_fits=vits) for parts in numbers)


def _full(data: str, arch: str, numbers: tuple[int, ...], learning_rate: float = 3e-4, **settings: Any) -> Any:
    settings = {"fusion_from": "iid", **settings}
    return tuple(
        dataclasses.replace(ways, name=f"{ways.name} {words}", tuned=tuned, learning_rate=learning_rate)
        for ways in _ways(data, arch, "full", numbers, **settings)
        for words, tuned in (("zero-shot", False), ("fine-tuned", True))
    )


#: The paper's widths; parent 0's is the fused network's.
WIDTHS = {"0.5x": "vgg11-half", "1x": "vgg11", "2x": "vgg11-double", "4x": "vgg11-quad"}
PAIRS = ("1x, 1x", "0.5x, 0.5x", "2x, 2x", "4x, 4x", "1x, 0.5x", "1x, 2x", "1x, 4x")
NONIID_PAIR = Column("2-way", "cifar10", ("vgg11",), "dirichlet", 2)


#: Samples of each column of the table, and copies.
SET_SIZES: dict[str, dict[str, Any]] = {
    "all sizes": {"samples": 1000},
    "5k samples": {"samples": 5000},
    "1k samples": {"samples": 1000},
    "1k samples, augmented": {"samples": 1000, "augment": 4},  # the paper does not say how many copies
}


def set_size_cell(column: Column, name: str, scale: Scale, source: ParentSource, seed: int) -> Cell | None:
    """Parents are in the column "all sizes", fusions in the others."""
    if name.startswith("Parent") != (column.name == "all sizes"):
        return None
    return usual_cell(column, name, scale, source, seed)


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


def against_zipit_cell(column: Column, name: str, scale: Scale, source: ParentSource, seed: int) -> Cell | None:
    """Rows that need no fusion samples are in the columns without a number; ZipIt used 25,000."""
    row = read_row(name)
    sampled = column.name.endswith("samples")
    if (row.method not in ("ZipIt", "KF-Gradient")) == sampled or (row.method == "ZipIt" and "25k" not in column.name):
        return None
    return usual_cell(column, name, scale, source, seed)


#: Times of a fusion: wall-clock time, as in the paper, and CPU time, which hardly depends on other processes.
TIMES = ("seconds", "processor_seconds")
VIT_PAIR = Column("2-way", "cifar100", ("vit",), "sharded", 2, many_fits=True)
TINY_FULL = _full("tiny-imagenet", "vit-tiny-imagenet", (2,), 1e-5, samples=5000)
CIFAR_FULL = _full("cifar100", "vit", (2, 4), samples=5000)


def end_to_end_cell(column: Column, name: str, scale: Scale, source: ParentSource, seed: int) -> Cell | None:
    """Seconds of the fusion, of its fine-tuning, and of both; what a row leaves out has no cell."""
    fusion = row_unit(TINY_FULL[0], read_row("KF-Gradient, uniform"), scale, source, seed)
    tuning = FineTuning(fusion, scale.finetune_epochs, TINY_FULL[1].learning_rate)
    columns = {"fusion": (fusion,), "fine-tuning": (tuning,), "total": (fusion, tuning)}
    rows = {
        "theoretical 0-time fusion": (tuning,),
        "ours, no fine-tuning": (fusion,),
        "ours, with fine-tuning": (fusion, tuning),
    }
    units = tuple(unit for unit in columns[column.name] if unit in rows[name])
    return Cell(units, ("seconds",)) if units else None


def cost_cell(column: Column, name: str, scale: Scale, source: ParentSource, seed: int) -> Cell | None:
    """Multiply-adds for one image, relative to one parent's; fine-tuning does not change them."""
    if name == "Average" or seed or (column.tuned and name == "Ensemble"):
        return None
    return usual_cell(dataclasses.replace(column, tuned=False), name, scale, source, seed)


RAND, BETWEEN_SEEDS = "adjusted Rand index to uniform", "adjusted Rand index between seeds"


def clustering_cell(column: Column, name: str, scale: Scale, source: ParentSource, seed: int) -> Cell | None:
    """Agreement of clusterings of the third convolution; all seeds are one unit."""
    other = column.name if name == BETWEEN_SEEDS else "uniform"
    if seed or (name == RAND and column.name == "uniform"):
        return None
    unit = Clustering(source, test_images=scale.test_images)
    return Cell((unit,), ("rand", other, column.name))


#: Row of the neurons with scores near zero.
NEAR_ZERO = "last convolution of parent 0"
#: In units of the uniform score.
NEARLY = "0.1"


def histogram_cell(column: Column, name: str, scale: Scale, source: ParentSource, seed: int) -> Cell | None:
    """Share of the last convolution's neurons with scores near zero; the histogram itself is in the unit's result."""
    if seed:
        return None
    unit = Clustering(source, test_images=scale.test_images)
    return Cell((unit,), ("below", NEARLY, column.name))


#: The fused network of the landscape, and the landscape's names of rows: networks, then paths.
LANDSCAPE_FUSED = "KF-Gradient, deeplift"
NETWORK_NAMES = {"Parent 0": "parent 0", "Parent 1": "parent 1", "Average": "average", LANDSCAPE_FUSED: "fused"}
LANDSCAPE_NETWORKS = {row: (name,) for row, name in NETWORK_NAMES.items()}
LANDSCAPE_PATHS = {
    f"{first} to {last}": (NETWORK_NAMES[first], NETWORK_NAMES[last])
    for first, last in (("Parent 0", "Parent 1"), ("Parent 0", LANDSCAPE_FUSED), ("Parent 1", LANDSCAPE_FUSED))
}
#: The paper clips the loss in its figure; it does not state resolution and images.
CLIP = 4.6


def landscape_cell(column: Column, name: str, scale: Scale, source: ParentSource, seed: int) -> Cell | None:
    """Numbers of the figure: at, around and between the networks; one unit per seed of the fusion."""
    kind = column.metric.removeprefix("landscape ")
    names = LANDSCAPE_PATHS if kind == "barrier" else LANDSCAPE_NETWORKS
    if name not in names or (seed and "fused" not in names[name]):
        return None
    fusion = row_unit(column, read_row(LANDSCAPE_FUSED), scale, source, seed)
    assert isinstance(fusion, Fusion)
    images = min(Landscape.images, scale.test_images or Landscape.images)
    unit = LossLandscape(fusion, Landscape(images=images, clip=CLIP))
    return Cell((unit,), (kind, *names[name]))


#: Samples as in other experiments with ViTs; the figure's caption does not state them.
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
            (
                *AGAINST_SILENCE,
                "PLeaS",
                "PLeaS, REPAIR",
                "Random-Linear, uniform",
                "KF-Linear, uniform, neuron i with neuron i",
            ),
        ),
        Table(
            "widths",
            "VGG11s of different widths, non-IID CIFAR-10",
            tuple(
                dataclasses.replace(
                    NONIID_PAIR, name=pair, arch=tuple(dict.fromkeys(WIDTHS[width] for width in pair.split(", ")))
                )
                for pair in PAIRS
            ),
            ("KF-Linear, uniform, by activity", "KF-Linear, conductance, by activity", "Random-Linear, uniform", "LP"),
        ),
        Table(
            "fusion-set-size",
            "Number of fusion samples and augmentation, non-IID CIFAR-10",
            tuple(dataclasses.replace(NONIID_PAIR, name=name, settings=sizes) for name, sizes in SET_SIZES.items()),
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
        Table(
            "resnet-compression",
            "ResNets compressed to a ResNet-18, CIFAR-100",
            tuple(
                dataclasses.replace(ways, name=f"ResNet-{teacher} to ResNet-18", target="resnet18")
                for teacher in (34, 50)
                for ways in _ways("cifar100", f"resnet{teacher}", "full", (1,), samples=5000, fusion_from="iid")
            ),
        ),
        Table(
            "runtime-vgg",
            "Seconds of a fusion, VGG11 on CIFAR-10",
            tuple(dataclasses.replace(NONIID_PAIR, name=name.replace("_", " "), metric=name) for name in TIMES),
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
                Column(name, "cifar100", ("vgg11",), "dirichlet", 2, metric=f"below {NEARLY}")
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
        ABLATION,
        BEYOND,
    )
}
