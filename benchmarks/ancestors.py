"""Merges of parents that were trained on from a common ancestor, over their options, beside Average and the linear fusions.

    python benchmarks/ancestors.py              measure what the record does not have yet (20 minutes of a core)
    python benchmarks/ancestors.py --table      every method, with intervals over ancestors
    python benchmarks/ancestors.py --options    every option that was tried, best first, on the draws that chose and on the others

Half of the training rows train the ancestor, briefly (weak) or for long (strong); the parents share the others. A draw is a seed
of all this, a network, a strength, a number of parents and a division. Methods that need data have 400 samples of all parents'
rows; networks with BatchNorm are also measured with statistics re-estimated on these. Accuracies on all test images of digits, on
2,000 of CIFAR-10 (shrunk to 16x16).
"""

import argparse
import copy
import itertools
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch
from draws import drawn, images_of, in_words
from machine import read, write
from torch import Tensor, nn

from retrofit_core import METHODS, build, ensemble, evaluate, train
from retrofit_core.data import Images
from retrofit_core.data.sampling import balanced
from retrofit_core.data.splits import dirichlet, sharded
from retrofit_core.networks.norm_statistics import has_statistics, reset_statistics

RECORD, SAMPLES, TESTED, TRAINED_ON = "ancestors", 400, 2000, 8000
CHOSEN_ON, SEEDS, COUNTS, RATE = 0, (0, 1, 2), (2, 4), 1e-3
"""The seed whose draws choose defaults; parents' learning rate"""
OF_DIGITS = {"classes": 10, "channels": 1, "size": 8}
#: Network -> data, its spec, epochs of a weak and of a strong ancestor and of a parent.
NETWORKS: dict[str, tuple[str, dict[str, Any], dict[str, int], int]] = {
    "CNN": ("digits", {"architecture": "cnn", **OF_DIGITS}, {"weak": 2, "strong": 20}, 10),
    "ResNet": (
        "digits",
        {"architecture": "resnet", "layers": [1, 1, 1], "width": 16, **OF_DIGITS},
        {"weak": 2, "strong": 20},
        10,
    ),
    "ViT": (
        "digits",
        {"architecture": "vit", "patch": 2, "hidden": 32, "depth": 2, "heads": 4, "mlp_width": 64, **OF_DIGITS},
        {"weak": 4, "strong": 40},
        10,
    ),
    "CIFAR-10 VGG": (
        "cifar10",
        {"architecture": "vgg", "plan": [16, "M", 32, "M", 64], "classes": 10, "channels": 3, "size": 16},
        {"weak": 1, "strong": 8},
        5,
    ),
}
DIVISIONS: dict[str, Callable[..., list[Tensor]]] = {"classes of its own": sharded, "non-IID": dirichlet}
#: What is added to the name of a merge whose BatchNorms have statistics of the samples.
RESET = ", statistics re-estimated"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--options", action="store_true")
    asked = parser.parse_args()
    if asked.table or asked.options:
        print(table(read(RECORD)) if asked.table else options_table(read(RECORD)))
        return
    for row in measured(read(RECORD).get("rows", [])):
        rows = [*read(RECORD).get("rows", []), row]
        write(RECORD, {"samples": SAMPLES, "chosen on seed": CHOSEN_ON, "rows": rows})
        print(row, flush=True)


def measured(known: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for each draw that is not known yet."""
    keys = ("seed", "network", "ancestor", "number", "division")
    done = {tuple(row[key] for key in keys) for row in known}
    for seed, network, strength in itertools.product(SEEDS, NETWORKS, ("weak", "strong")):
        cases = [(seed, network, strength, *case) for case in itertools.product(COUNTS, DIVISIONS)]
        left = [case for case in cases if case not in done]
        if left:
            yield from ({**dict(zip(keys, case, strict=True)), **facts} for case, facts in of_ancestor(left))


def of_ancestor(cases: list[tuple[Any, ...]]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Train an ancestor, and for each case its parents; merge and measure these."""
    seed, network, strength, *_ = cases[0]
    data, spec, epochs, further = NETWORKS[network]
    images, test = (images_of(data, split, spec["size"]) for split in ("train", "test"))
    generator = torch.Generator().manual_seed(seed)
    rows = balanced(images.labels, min(TRAINED_ON, len(images)), generator=generator)
    first, second = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    ancestor = build(spec, seed=seed)
    train(ancestor, images, first, epochs=epochs[strength], seed=seed)
    tested = torch.arange(min(TESTED, len(test)))

    def accuracy(model: nn.Module | Callable[[Tensor], Tensor]) -> float:
        return round(evaluate(model, test, rows=tested)["accuracy"], 2)

    for case in cases:
        *_, number, division = case
        parts = [second[part] for part in DIVISIONS[division](images.labels[second], number, seed=seed)]
        parents = [copy.deepcopy(ancestor) for _ in parts]
        for k, (parent, part) in enumerate(zip(parents, parts, strict=True)):
            # the last epoch: held-out rows of a parent's own classes would choose the ancestor itself
            train(parent, images, part, epochs=further, learning_rate=RATE, holdout=0.0, seed=100 * seed + k)
        accuracies = merged(images, second, parts, parents, ancestor, seed, accuracy)
        yield (
            case,
            {
                "accuracy of the ancestor": accuracy(ancestor),
                "parents": [accuracy(parent) for parent in parents],
                "accuracies": {"Ensemble": accuracy(ensemble(parents)), **accuracies},
            },
        )


def merged(
    images: Images,
    rows: Tensor,
    parts: list[Tensor],
    parents: list[nn.Module],
    ancestor: nn.Module,
    seed: int,
    accuracy: Callable[[nn.Module], float],
) -> dict[str, float]:
    """Accuracy of every method and option that takes these parents."""
    samples, own = (
        drawn(images, rows, SAMPLES, seed),
        [drawn(images, part, SAMPLES, seed) for part in parts],
    )
    accuracies = {}
    for name, method, options in trials(len(parents)):
        takes = METHODS[method].takes
        given = {"base": ancestor} if takes.base else {}
        given |= {"importance_data": own} if takes.parents_data else {}
        model = METHODS[method](parents, samples, seed=seed, device="cpu", **given, **options).model
        accuracies[name] = accuracy(model)
        if any(has_statistics(module) for module in model.modules()) and not METHODS[method].parts:
            reset_statistics(model, samples[0], keep_function=False)
            accuracies[name + RESET] = accuracy(model)
    for method in ("HF-Linear", "KF-Linear") if len(parents) == 2 else ("KF-Linear",):
        fused = METHODS[method](parents, own[0], seed=seed, device="cpu").model
        accuracies[f"{method}, samples of parent 0"] = accuracy(fused)
    return accuracies


def trials(number: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, method and options; scales of sums count in n-ths, so that 1 is the mean."""
    yield "Fisher", "Fisher", {"expectation": "sampled"}  # a tenth of the time
    for method in ("Average", "Greedy-Soup", "RegMean", "KF-Linear", "Same-Index-Linear"):
        yield method, method, {}
    if number == 2:
        yield "SLERP", "SLERP", {}
        yield "HF-Linear", "HF-Linear", {}
    for scale in (0.4, *(share / number for share in (0.5, 1.25, 1.5, 2.0))):
        words = f"{scale:g}" if scale == 0.4 else f"{scale * number:g}/n"
        yield f"Task-Arithmetic scale={words}", "Task-Arithmetic", {"scale": scale}
    for scale, density in itertools.product((0.5, 0.75, 1.0, 1.5), (0.2, 0.5, 1.0)):
        yield f"TIES scale={scale:g} density={density:g}", "TIES", {"scale": scale, "density": density}
    yield "DARE scale=0.4 drop=0.9", "DARE", {"scale": 0.4, "drop": 0.9}
    for drop in (0.1, 0.5, 0.9):
        yield f"DARE scale=1/n drop={drop:g}", "DARE", {"scale": 1 / number, "drop": drop}
    for scale, drop in itertools.product((0.5, 1.0), (0.1, 0.5)):
        yield f"DARE elect scale={scale:g} drop={drop:g}", "DARE", {"elect": True, "scale": scale, "drop": drop}


#: Lines of the table: task arithmetic at 1/n is Average; for the sums, the published options and those with the best mean.
LINES = (
    "Task-Arithmetic scale=0.4",
    "TIES scale=1 density=0.2",
    "TIES scale=0.75 density=1",
    "DARE scale=0.4 drop=0.9",
    "DARE scale=1/n drop=0.1",
    "SLERP",
    "Fisher",
    "Greedy-Soup",
    "RegMean",
    "Same-Index-Linear",
    "HF-Linear",
    "KF-Linear",
    "HF-Linear, samples of parent 0",
    "KF-Linear, samples of parent 0",
    "Ensemble",
)
COLUMNS = [(strength, number) for strength in ("weak", "strong") for number in COUNTS]


def table(record: dict[str, Any]) -> str:
    """A line a method: means in each situation, the difference to Average over ancestors, and in how many draws it is ahead."""
    rows = record["rows"]
    heads = [f"{strength}, {'two' if number == 2 else 'four'}" for strength, number in COLUMNS]
    lines = [
        f"| method | {' | '.join(heads)} | minus Average | ahead of Average |",
        "|" + " --- |" * (len(heads) + 3),
    ]
    best = [statistics.mean(max(row["parents"]) for row in of(rows, column)) for column in COLUMNS]
    average = [mean(of(rows, column), "Average") for column in COLUMNS]
    for name, means in {"best parent": best, "Average": average}.items():
        lines.append(f"| {name} | {' | '.join(f'{value:.1f}' for value in means)} | | |")
    for name in LINES:
        taken = [row for row in rows if name in row["accuracies"]]
        means = [mean(of(taken, column), name) for column in COLUMNS]
        ahead = [value(row, name) > value(row, "Average") for row in taken]
        cells = ["-" if one is None else f"{one:.1f}" for one in means]
        lines.append(
            f"| {name} | {' | '.join(cells)} | {in_words(differences(taken, name))} | {sum(ahead)} of {len(ahead)} |"
        )
    return "\n".join(lines)


def options_table(record: dict[str, Any]) -> str:
    """A line for each of the options of the three sums: difference to Average on the draws that chose and on the others."""
    chosen, others = (
        [row for row in record["rows"] if (row["seed"] == CHOSEN_ON) == wanted] for wanted in (True, False)
    )
    names = [
        name
        for name in chosen[0]["accuracies"]
        if name.split()[0] in ("Task-Arithmetic", "TIES", "DARE") and RESET not in name
    ]
    names = sorted(names, key=lambda name: (name.split()[0], -statistics.mean(differences(chosen, name))))
    lines = ["| options | on the draws that chose | on the others | of these non-IID |", "|" + " --- |" * 4]
    for name in names:
        parts = (chosen, others, [row for row in others if row["division"] == "non-IID"])
        lines.append(f"| {name} | {' | '.join(in_words(differences(part, name)) for part in parts)} |")
    return "\n".join(lines)


def of(rows: list[dict[str, Any]], column: tuple[str, int]) -> list[dict[str, Any]]:
    """The draws with an ancestor of this strength and this number of parents."""
    return [row for row in rows if (row["ancestor"], row["number"]) == column]


def value(row: dict[str, Any], name: str) -> float:
    """An accuracy, of a network with BatchNorm that with re-estimated statistics."""
    return row["accuracies"].get(name + RESET, row["accuracies"][name])


def mean(rows: list[dict[str, Any]], name: str) -> float | None:
    return statistics.mean(value(row, name) for row in rows) if rows else None


def differences(rows: list[dict[str, Any]], name: str) -> list[float]:
    """A method minus Average, one mean for each ancestor, because the draws of one ancestor are not independent."""
    ancestors = {(row["seed"], row["network"], row["ancestor"]) for row in rows}
    return [
        statistics.mean(
            value(row, name) - value(row, "Average")
            for row in rows
            if (row["seed"], row["network"], row["ancestor"]) == one
        )
        for one in sorted(ancestors)
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
