"""Two explanations of results that contradict the paper, tested: `python benchmarks/explanations.py`.

`six shards`: six VGG11s of a quarter width know one or two classes of CIFAR-10 each. The paper gains over the best parent
here, and we lose. Are our parents too sure, because they were trained without CutMix and AutoAugment? Each way of
training gives the parents' and the ensemble's accuracies, how sure a parent is of images whose class it has never seen,
and fusions with 400 images of parent 0. Two of the six know a single class and say nothing else: the same without them.

`eight parts`: KF-Linear is ahead of LP with eight networks on non-IID parts, where the paper has it behind. Both start from
parent 0. Does it matter which of the eight that is? The same networks are fused with the weakest and with the strongest first.

Parents stay in `--work`; a second call trains no parent again. About an hour on one core.
"""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from machine import shared_folder, write
from torch import Tensor, nn

from retrofit_core import METHODS, evaluate
from retrofit_core.data import Images, load
from retrofit_core.data.splits import read_splits
from retrofit_core.experiments.scales import SCALES, training
from retrofit_core.networks.checkpoints import load_model
from retrofit_core.training.config import TrainConfig
from retrofit_core.training.evaluation import ensemble, scores
from retrofit_core.training.parents import train_parents

SAMPLES = 400
#: Augmentation and epochs of the parents; "auto" is the paper's: crop, flip, AutoAugment, CutMix.
TRAININGS = {
    "crop and flip, 10 epochs": ("crop=4,flip", 10),
    "as the paper, 10 epochs": ("auto", 10),
    "as the paper, 30 epochs": ("auto", 30),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("build/explanations"), help="folder for the parents")
    parser.add_argument("--seeds", type=int, default=2, help="sets of parents")
    arguments = parser.parse_args()
    data = str(shared_folder() / "data" / "cifar10")
    images, test = load(data, "train"), load(data, "test")
    found: dict[str, Any] = {"six shards": {}, "eight parts": {}}
    for seed in range(arguments.seeds):
        for name, (augment, epochs) in TRAININGS.items():
            config = config_of(data, "sharded", 6, seed, augment=augment, epochs=epochs)
            found["six shards"].setdefault(name, []).append(six_shards(config, arguments.work, images, test))
            write("explanations", found)
        config = config_of(data, "dirichlet", 8, seed)
        found["eight parts"].setdefault("crop and flip, 10 epochs", []).append(
            eight_parts(config, arguments.work, images, test)
        )
        write("explanations", found)


def config_of(data: str, split: str, parts: int, seed: int, **changes: Any) -> TrainConfig:
    """The parents of a column at the scale `small`, with changes."""
    small = training(SCALES["small"], "cifar10", ("vgg11",), split, parts, seed)
    return TrainConfig(**{**small.to_json(), "arch": small.arch, "data": data, **changes})


def parents_of(config: TrainConfig, work: Path, images: Images) -> tuple[list[nn.Module], list[Tensor]]:
    """The parents, trained where they are not there, and the rows that each has seen."""
    folder = work / config.folder
    train_parents(config, folder, resume=True, test=False)
    files = config.files(folder)
    return [load_model(file)[0] for file in files], read_splits(config.splits(folder), files, len(images.labels))


def six_shards(config: TrainConfig, work: Path, images: Images, test: Images) -> dict[str, Any]:
    """One way of training the parents of six shards."""
    parents, rows = parents_of(config, work, images)
    several = [index for index, seen in enumerate(rows) if len(images.labels[seen].unique()) > 1]
    sureness = []
    for parent, seen in zip(parents, rows, strict=True):
        strange = ~torch.isin(test.labels, images.labels[seen].unique())
        outputs = scores(parent, test, rows=strange.nonzero().flatten())
        sureness.append(outputs.softmax(1).amax(1).mean().item())
    return {
        **measured(parents, test),
        "confidence on strange classes": round(100 * statistics.fmean(sureness), 1),
        **fused(parents, rows, images, test, ("KF-Linear",)),
        "without networks of one class": {
            **measured([parents[index] for index in several], test),
            **fused(
                [parents[index] for index in several], [rows[index] for index in several], images, test, ("KF-Linear",)
            ),
        },
    }


def eight_parts(config: TrainConfig, work: Path, images: Images, test: Images) -> dict[str, Any]:
    """Eight networks with the weakest first, and with the strongest first."""
    parents, rows = parents_of(config, work, images)
    facts = measured(parents, test)
    order = sorted(range(len(parents)), key=lambda index: facts["parents"][index])
    for name, first in (("weakest first", order), ("strongest first", order[::-1])):
        facts[name] = fused(
            [parents[index] for index in first], [rows[index] for index in first], images, test, ("KF-Linear", "LP")
        )
    return facts


def measured(parents: Sequence[nn.Module], test: Images) -> dict[str, Any]:
    """Accuracies (%) of the parents, the best and their ensemble."""
    accuracies = [accuracy(parent, test) for parent in parents]
    return {"parents": accuracies, "best parent": max(accuracies), "ensemble": accuracy(ensemble(parents), test)}


def fused(
    parents: Sequence[nn.Module], rows: Sequence[Tensor], images: Images, test: Images, methods: Sequence[str]
) -> dict[str, float]:
    """Accuracies (%) of fusions with samples of the first parent, by method and score."""
    own = [(images.inputs(seen), images.labels[seen]) for seen in (drawn(part) for part in rows)]
    found = {}
    for method in methods:
        for score in ("uniform", "conductance") if method != "LP" else ("",):
            more: dict[str, Any] = {"importance": score, "importance_data": own} if score else {}
            model = METHODS[method](list(parents), own[0], device="cpu", **more).model
            found[f"{method}, {score}".removesuffix(", ")] = accuracy(model, test)
    return found


def drawn(part: Tensor) -> Tensor:
    """Rows of a parent, at random."""
    return part[torch.randperm(len(part), generator=torch.Generator().manual_seed(0))[:SAMPLES]]


def accuracy(model: nn.Module, test: Images) -> float:
    return round(evaluate(model, test)["accuracy"], 2)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
