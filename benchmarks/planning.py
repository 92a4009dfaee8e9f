"""Processor seconds that planning a fusion takes: trace, levels, neurons and checks of two parents and the future network.

    python benchmarks/planning.py          measure; the record keeps other commits
    python benchmarks/planning.py --table  print the record, measure nothing

One thread, random weights, KF-Linear, the least of five. On a GPU most of a small fusion is planning, which runs on the
processor.
"""

import argparse
import time

import torch
import torchvision
from machine import facts, read, write

from retrofit_core import METHODS, build

RECORD = "planning"
NETWORKS = {
    "MLP of four layers": (lambda seed: build({"architecture": "mlp", "sizes": [784, 128, 64, 10]}, seed=seed), (784,)),
    "VGG11": (lambda seed: build({"architecture": "vgg", "classes": 10}, seed=seed), (3, 32, 32)),
    "ViT": (lambda seed: build({"architecture": "vit", "classes": 10, "size": 32}, seed=seed), (3, 32, 32)),
    "torchvision's ResNet-18": (lambda seed: torchvision.models.resnet18(num_classes=10), (3, 64, 64)),
}
METHOD, REPEATS = "KF-Linear", 5


def planned(name: str) -> float:
    """The least processor seconds of several plans; the first, which imports, does not count."""
    make, shape = NETWORKS[name]
    parents, x = [make(seed) for seed in range(2)], torch.randn(16, *shape)
    seconds = []
    for _ in range(REPEATS + 1):
        start = time.process_time()
        METHODS[METHOD].plan(parents, x, device="cpu")
        seconds.append(time.process_time() - start)
    return min(seconds[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="print the record, measure nothing")
    commits = read(RECORD).get("seconds", {})
    if not parser.parse_args().table:
        torch.set_num_threads(1)
        commits[facts()["commit"]] = {name: planned(name) for name in NETWORKS}
        write(RECORD, {"seconds": commits})
    for commit, seconds in commits.items():
        print(commit, *(f"{name} {of_network:.3f} s" for name, of_network in seconds.items()), sep="  ")


if __name__ == "__main__":
    main()
