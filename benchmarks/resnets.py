"""HF-Linear beside KF-Linear on two equal ResNets: widths, BatchNorm and none, digits and CIFAR-10, three pairs each.

    python benchmarks/resnets.py                measure what the record does not have yet (12 minutes of a core)
    python benchmarks/resnets.py --table        the record as a table

Networks have three stages of one block, or are ResNet-18s. Parents know five classes each. A pair is a seed of the split, of
their weights and training, and of the samples: 400 of parent 0's training rows, or 400 of both parents' rows. Uniform scores.
CIFAR-10 is shrunk to 16x16, and a pair sees 6,000 of its images. Accuracies on all test images of digits, on 2,000 of CIFAR-10.
"""

import argparse
import itertools
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch
from draws import drawn, images_of, in_words
from machine import read, write
from torch import Tensor, nn

from retrofit_core import METHODS, build, ensemble, evaluate, train
from retrofit_core.data.sampling import balanced
from retrofit_core.data.splits import sharded
from retrofit_core.networks.architectures.resnet import BasicBlock, ResNet

RECORD, SAMPLES, TESTED = "resnets", 400, 2000
WIDTHS, SEEDS, NORMS = (8, 16, 32), (0, 1, 2), {"BatchNorm": "BatchNorm", "none": "no normalisation"}
FUSIONS, SAMPLES_OF = ("HF-Linear", "KF-Linear"), ("parent 0", "all")
#: Kind of pair -> data, network without its width, training rows of a pair, epochs of each parent.
KINDS: dict[str, tuple[str, dict[str, Any], int, int]] = {
    "digits": ("digits", {"layers": [1, 1, 1], "channels": 1, "size": 8}, 1438, 10),
    "CIFAR-10": ("cifar10", {"layers": [1, 1, 1], "channels": 3, "size": 16}, 6000, 8),
    "digits, ResNet-18": ("digits", {"layers": [2, 2, 2, 2], "channels": 1, "size": 8}, 1438, 10),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    if parser.parse_args().table:
        print(table(read(RECORD)))
        return
    for row in measured(read(RECORD).get("rows", [])):
        write(RECORD, {"samples": SAMPLES, "rows": [*read(RECORD).get("rows", []), row]})
        print(row, flush=True)


def measured(known: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for each pair that is not known yet."""
    keys = ("seed", "kind", "norm", "width")
    done = {tuple(row[key] for key in keys) for row in known}
    for case in itertools.product(SEEDS, KINDS, NORMS, WIDTHS):
        if case not in done:
            yield {**dict(zip(keys, case, strict=True)), **of_pair(*case)}


def of_pair(seed: int, kind: str, norm: str, width: int) -> dict[str, Any]:
    """Train two parents, fuse them in every way, measure."""
    data, network, count, epochs = KINDS[kind]
    images, test = (images_of(data, split, network["size"]) for split in ("train", "test"))
    rows = balanced(images.labels, min(count, len(images)), generator=torch.Generator().manual_seed(seed))
    parts = [rows[part] for part in sharded(images.labels[rows], 2, seed=seed)]
    parents = [resnet(norm, seed=100 * seed + k, width=width, **network) for k in range(2)]
    for k, (parent, part) in enumerate(zip(parents, parts, strict=True)):
        train(parent, images, part, epochs=epochs, clip=1.0, seed=100 * seed + k)
    samples = {"parent 0": drawn(images, parts[0], SAMPLES, seed), "all": drawn(images, rows, SAMPLES, seed)}
    tested = torch.arange(min(TESTED, len(test)))

    def accuracy(model: nn.Module | Callable[[Tensor], Tensor]) -> float:
        return round(evaluate(model, test, rows=tested)["accuracy"], 2)

    fused = {
        f"{name}, {origin}": METHODS[name](parents, samples[origin], seed=seed, device="cpu").model
        for name, origin in itertools.product(FUSIONS, SAMPLES_OF)
    }
    return {
        "parents": [accuracy(parent) for parent in parents],
        "ensemble": accuracy(ensemble(parents)),
        **{name: accuracy(model) for name, model in fused.items()},
    }


def resnet(norm: str, seed: int, **options: Any) -> ResNet:
    """Our ResNet, or one whose convolutions have biases in place of BatchNorms.

    Without normalisation each block would double the variance of the stream, so the last convolution of a block starts smaller.
    """
    network = build({"architecture": "resnet", "classes": 10, **options}, seed=seed)
    if norm == "BatchNorm":
        return network
    blocks = [module for module in network.modules() if isinstance(module, BasicBlock)]
    for block in blocks:
        with torch.no_grad():
            block.conv2.weight.div_(len(blocks) ** 0.5)
    for name, module in list(network.named_modules()):
        owner = network.get_submodule(name.rpartition(".")[0])
        if isinstance(module, nn.BatchNorm2d):
            setattr(owner, name.rpartition(".")[2], nn.Identity())
        elif isinstance(module, nn.Conv2d):
            module.bias = nn.Parameter(torch.zeros(module.out_channels))
    return network


def table(record: dict[str, Any]) -> str:
    """A line for each kind of pair and origin of the samples: means, KF-Linear minus HF-Linear with its interval over pairs."""
    lines = [
        "| pairs | samples of | number | best parent | HF-Linear | KF-Linear | KF minus HF | KF ahead | Ensemble |",
        "|" + " --- |" * 9,
    ]
    for part, rows in parts(record["rows"]).items():
        for origin in SAMPLES_OF:
            hf, kf = ([row[f"{name}, {origin}"] for row in rows] for name in FUSIONS)
            differences = [k - h for k, h in zip(kf, hf, strict=True)]
            ahead = sum(difference > 0 for difference in differences)
            best, together = ([max(row["parents"]) for row in rows], [row["ensemble"] for row in rows])
            cells = [part, origin, str(len(rows)), *(f"{statistics.mean(values):.1f}" for values in (best, hf, kf))]
            cells += [in_words(differences), f"{ahead} of {len(rows)}", f"{statistics.mean(together):.1f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def parts(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each kind of pair with and without BatchNorm, then of all shallow ones, of each width, and all."""
    kinds = {
        f"{kind}, {NORMS[norm]}": [row for row in rows if (row["kind"], row["norm"]) == (kind, norm)]
        for kind, norm in itertools.product(KINDS, NORMS)
    }
    widths = {f"width {width}": [row for row in rows if row["width"] == width] for width in WIDTHS}
    shallow = {"three blocks": [row for row in rows if "ResNet-18" not in row["kind"]]}
    return {**kinds, **shallow, **widths, "all": rows}


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
