"""TABLES: all tables of the paper, and ours, with columns and rows. No torch, so that tables show quickly."""

import dataclasses
from typing import Any

from .ablation import ABLATION
from .beyond import BEYOND
from .cells import Column, Table

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


def _has_set_size(column: Column, row: str, _: int) -> bool:
    """Parents are in the column "all sizes", fusions in the others."""
    return row.startswith("Parent") == (column.name == "all sizes")


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


def _has_samples(column: Column, row: str, _: int) -> bool:
    """Rows that need no fusion samples are in the columns without a number; ZipIt used 25,000."""
    method, sampled = row.split(",")[0], column.name.endswith("samples")
    return (method in ("ZipIt", "KF-Gradient")) == sampled and (method != "ZipIt" or "25k" in column.name)


#: Times of a fusion: wall-clock time, as in the paper, and CPU time, which hardly depends on other processes.
TIMES = ("seconds", "processor_seconds")
VIT_PAIR = Column("2-way", "cifar100", ("vit",), "sharded", 2, many_fits=True)
TINY_FULL = _full("tiny-imagenet", "vit-tiny-imagenet", (2,), 1e-5, samples=5000)
CIFAR_FULL = _full("cifar100", "vit", (2, 4), samples=5000)


#: Rows of the times from two ViTs to a fine-tuned one, and what each adds up.
END_TO_END = {
    "theoretical 0-time fusion": ("fine-tuning", "total"),
    "ours, no fine-tuning": ("fusion", "total"),
    "ours, with fine-tuning": ("fusion", "fine-tuning", "total"),
}
RAND, BETWEEN_SEEDS = "adjusted Rand index to uniform", "adjusted Rand index between seeds"
#: Row of the neurons with scores near zero, and what is near, in units of the uniform score.
NEAR_ZERO, NEARLY = "last convolution of parent 0", "0.1"
#: The fused network of the landscape, and the landscape's names of rows: networks, then paths.
LANDSCAPE_FUSED = "KF-Gradient, deeplift"
NETWORK_NAMES = {"Parent 0": "parent 0", "Parent 1": "parent 1", "Average": "average", LANDSCAPE_FUSED: "fused"}
PATHS = {
    f"{first} to {last}": (NETWORK_NAMES[first], NETWORK_NAMES[last])
    for first, last in (("Parent 0", "Parent 1"), ("Parent 0", LANDSCAPE_FUSED), ("Parent 1", LANDSCAPE_FUSED))
}


def _has_place(column: Column, row: str, seed: int) -> bool:
    """Barriers are on paths, other numbers of networks; only those of the fused one depend on the seed."""
    return row in (PATHS if column.name == "barrier" else NETWORK_NAMES) and (not seed or LANDSCAPE_FUSED in row)


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
            _has_set_size,
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
            _has_samples,
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
            has=lambda column, row, seed: column.name in END_TO_END[row],
            kind="times",
        ),
        Table(
            "inference-cost",
            "Multiply-adds for one image, as multiples of one network's",
            # Fine-tuning does not change them.
            tuple(dataclasses.replace(column, metric="operations", tuned=False) for column in CIFAR_FULL),
            has=lambda column, row, seed: (
                not seed and row != "Average" and not (row == "Ensemble" and column.name.endswith("fine-tuned"))
            ),
        ),
        Table(
            "neuron-importance",
            "Clusterings of VGG11's third convolution by different scores",
            tuple(
                dataclasses.replace(NONIID_PAIR, name=name, metric="rand")
                for name in ("uniform", "conductance", "deeplift")
            ),
            (BETWEEN_SEEDS,),
            lambda column, row, seed: not seed and (row, column.name) != (RAND, "uniform"),
            "clustering",
        ),
        Table(
            "importance-histogram",
            "Importance scores near zero, VGG11 on non-IID CIFAR-100",
            tuple(
                Column(name, "cifar100", ("vgg11",), "dirichlet", 2, metric=f"below {NEARLY}")
                for name in ("conductance", "deeplift")
            ),
            (NEAR_ZERO,),
            lambda column, row, seed: not seed,
            "clustering",
        ),
        Table(
            "landscape",
            "Loss landscape of ViTs on non-IID CIFAR-10 and of KF-Gradient with DeepLIFT",
            tuple(
                dataclasses.replace(VIT_NONIID, name=name, metric=f"landscape {name}")
                for name in ("loss", "accuracy", "rise", "barrier")
            ),
            (*NETWORK_NAMES, *PATHS),
            _has_place,
            "landscape",
        ),
        ABLATION,
        BEYOND,
    )
}
