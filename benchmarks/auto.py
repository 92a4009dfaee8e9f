"""Auto beside the best parent, KF-Linear with conductance and the ensemble, in regimes where one or the other is ahead.

    python benchmarks/auto.py                      digits, then the given pairs; what the record has is not measured again
    python benchmarks/auto.py --networks ResNet-18 ViT --seeds 3
    python benchmarks/auto.py --seeds 0            the draws on which Auto's candidates were chosen
    python benchmarks/auto.py --only given         the pairs of `pairs.py`, of whose parents and KF-Linear there are records
    python benchmarks/auto.py --table              the record as a table

A draw is a seed of the split, of the parents' weights and training, and of the fusion samples. 400 samples of parent 0's training
rows, or as many as it has, and as many of each parent for scores. Accuracies on all test images, seconds of a thread.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from machine import read, shared_folder, write
from pairs import PAIRS, config
from torch import Tensor, nn

from retrofit_core import METHODS, build, ensemble, evaluate, train
from retrofit_core.data import Images, load
from retrofit_core.data.sampling import balanced
from retrofit_core.data.splits import dirichlet, full, sharded
from retrofit_core.runs import read_inputs

RECORD, SAMPLES, EPOCHS, SHORT = "auto", 400, 20, 2
CHOSEN_ON, SEEDS = 0, [0, 3, 4, 5]
"""The seed whose draws decided what Auto tries; the others were held back"""
NETWORKS = {
    "MLP": {"architecture": "mlp", "sizes": [64, 48, 32, 10]},
    "CNN": {"architecture": "cnn"},
    "VGG": {"architecture": "vgg", "plan": [16, "M", 32, 32, "M", 48], "classes": 10, "channels": 1, "size": 8},
}
BLOCKS = {
    "ResNet-18": {"architecture": "resnet", "layers": [2, 2, 2, 2], "width": 16},
    "ViT": {"architecture": "vit", "patch": 2, "hidden": 32, "depth": 3, "heads": 4, "mlp_width": 64},
}
NETWORKS |= {name: {**spec, "classes": 10, "channels": 1, "size": 8} for name, spec in BLOCKS.items()}
#: Regime -> how the training rows are divided, among how many parents, and the epochs of each.
REGIMES: dict[str, tuple[Callable[..., list[Tensor]], tuple[int, ...]]] = {
    "two, five classes each": (sharded, (EPOCHS, EPOCHS)),
    "four, two or three classes each": (sharded, (EPOCHS,) * 4),
    "six, one or two classes each": (sharded, (EPOCHS,) * 6),
    "four, non-IID": (dirichlet, (EPOCHS,) * 4),
    "two, all of the data": (full, (EPOCHS, EPOCHS)),
    "two, all of the data, parent 0 trained for a tenth": (full, (SHORT, EPOCHS)),
    "two, non-IID, parent 0 trained for a tenth": (dirichlet, (SHORT, EPOCHS)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("digits", "given"))
    parser.add_argument(
        "--networks", nargs="+", choices=NETWORKS, default=[name for name in NETWORKS if name not in BLOCKS]
    )
    parser.add_argument("--pairs", nargs="+", choices=PAIRS, default=list(PAIRS))
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    if asked.table:
        rows = read(RECORD)["rows"]
        print(table([row for row in rows if row["network"] not in BLOCKS]))
        print("\nResNet-18s and ViTs\n")
        print(table([row for row in rows if row["network"] in BLOCKS]))
        return
    for row in measured(asked, read(RECORD).get("rows", [])):
        rows = [*read(RECORD).get("rows", []), row]
        write(RECORD, {"samples": SAMPLES, "chosen on seed": CHOSEN_ON, "rows": rows})
        print(row["regime"], row["network"], row["seed"], row["best parent"], row["KF-Linear"], row["Auto"], flush=True)


def measured(asked: argparse.Namespace, known: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for each regime, network and seed that is not known yet."""
    done = {(row["regime"], row["network"], row["seed"]) for row in known}
    for seed in asked.seeds:
        for network in asked.networks if asked.only != "given" else ():
            for regime in REGIMES:
                if (regime, network, seed) not in done:
                    yield {"regime": regime, "network": network, "seed": seed, **of_digits(regime, network, seed)}
        for pair in asked.pairs if asked.only != "digits" else ():
            if (pair, "given", seed) not in done:
                yield {"regime": pair, "network": "given", "seed": seed, **of_pair(shared_folder(), pair, seed)}


def of_digits(regime: str, network: str, seed: int) -> dict[str, Any]:
    """Train parents, fuse, measure."""
    images, test = load("digits", "train"), load("digits", "test")
    divide, epochs = REGIMES[regime]
    parts = divide(images.labels, len(epochs), seed=seed)
    parents = [build(NETWORKS[network], seed=100 * seed + k) for k in range(len(parts))]
    for k, (parent, rows) in enumerate(zip(parents, parts, strict=True)):
        train(parent, images, rows, epochs=epochs[k], seed=100 * seed + k)
    own = [drawn(images, rows, seed) for rows in parts]
    scored = {"importance": "conductance", "importance_data": own, "seed": seed}
    linear, spent = timed("KF-Linear", parents, own[0], **scored)
    centred, _ = timed("KF-Linear", parents, own[0], centre=True, **scored)
    auto, took = timed("Auto", parents, own[0], importance_data=own, seed=seed)
    return {
        "parents": [accuracy(parent, test) for parent in parents],
        "best parent": max(accuracy(parent, test) for parent in parents),
        "KF-Linear": accuracy(linear.model, test),
        "KF-Linear, centred": accuracy(centred.model, test),
        "Auto": accuracy(auto.model, test),
        "ensemble": accuracy(ensemble(parents), test),
        "seconds": {"KF-Linear": spent, "Auto": took},
        "choice": auto.config["choice"],
    }


def of_pair(shared: Path, pair: str, seed: int) -> dict[str, Any]:
    """Fuse a given pair; parents and KF-Linear were measured by accuracy.py, on the same samples."""
    asked = config(shared, pair, method="Auto", seed=seed)
    reference = read(f"accuracy-{Path(asked.models[0]).stem.removesuffix('-0')}-linear")
    linear = next(
        row
        for row in reference["rows"]
        if (row["method"], row["importance"], row["ridge"]) == ("KF-Linear", "conductance", "toward zero, auto")
    )
    inputs, test = read_inputs(asked), load(asked.data, "test")
    given = inputs.keywords(asked)
    scored = {"importance": "conductance", "importance_data": inputs.importance, "seed": seed}
    centred, _ = timed("KF-Linear", inputs.models, inputs.fusion, centre=True, **scored)
    auto, took = timed("Auto", inputs.models, inputs.fusion, **given)
    parents = [reference["reference"][f"parent {k}"] for k in range(len(inputs.models))]
    return {
        "parents": [round(value, 2) for value in parents],
        "best parent": round(max(parents), 2),
        "KF-Linear": round(linear["accuracies"][seed], 2),
        "KF-Linear, centred": accuracy(centred.model, test),
        "Auto": accuracy(auto.model, test),
        "ensemble": round(reference["reference"]["ensemble"], 2),
        "seconds": {"Auto": took},
        "choice": auto.config["choice"],
    }


def drawn(images: Images, rows: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Balanced samples of a parent's training rows, with labels."""
    generator = torch.Generator().manual_seed(seed)
    chosen = balanced(images.labels, min(SAMPLES, len(rows)), rows=rows, generator=generator)
    return images.inputs(chosen), images.labels[chosen]


def timed(method: str, parents: list[nn.Module], data: Any, **options: Any) -> tuple[Any, float]:
    """A method's result, and the seconds of all its threads."""
    start = time.process_time()
    result = METHODS[method](parents, data, **{**options, "device": "cpu"})
    return result, round(time.process_time() - start, 1)


def accuracy(model: nn.Module, test: Images) -> float:
    return round(evaluate(model, test)["accuracy"], 2)


def table(rows: list[dict[str, Any]]) -> str:
    """A line a regime, then all draws of digits and those held back: means, standard deviation of the seeds' means."""
    columns = ("best parent", "KF-Linear", "KF-Linear, centred", "Auto", "ensemble")
    digits = [row for row in rows if row["network"] != "given"]
    parts = {
        **{
            regime: [row for row in rows if row["regime"] == regime]
            for regime in dict.fromkeys(r["regime"] for r in rows)
        },
        "all draws of digits": digits,
        "of these the seeds held back": [row for row in digits if row["seed"] != CHOSEN_ON],
    }
    lines = [
        f"| regime | draws | {' | '.join(columns)} | seconds of KF-Linear, Auto |",
        f"|{' --- |' * (len(columns) + 3)}",
    ]
    for name, part in parts.items():
        cells = [mean_and_deviation(part, column) for column in columns]
        times = {
            method: [row["seconds"][method] for row in part if method in row["seconds"]]
            for method in ("KF-Linear", "Auto")
        }
        spent = [f"{statistics.mean(seconds):.1f}" if seconds else "-" for seconds in times.values()]
        lines.append(f"| {name} | {len(part)} | {' | '.join(cells)} | {', '.join(spent)} |")
    return "\n".join(lines)


def mean_and_deviation(rows: list[dict[str, Any]], column: str) -> str:
    """The mean, and the standard deviation of the means of each seed."""
    seeds = {row["seed"] for row in rows}
    means = [statistics.mean(row[column] for row in rows if row["seed"] == seed) for seed in seeds]
    spread = f" ± {statistics.stdev(means):.1f}" if len(means) > 1 else ""
    return f"{statistics.mean(row[column] for row in rows):.1f}{spread}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
