"""Seconds an epoch of training for each architecture, beside the floor; on a GPU too where there is one.

    python benchmarks/training.py                    every architecture that is there (about half an hour on two cores)
    python benchmarks/training.py vgg11-half cnn     only these

CIFAR-10, batch 128, Adam, crop, flip, AutoAugment and CutMix as in the recipe "cifar". The floor is the number of
floating-point operations of forward and backward passes (counted on the traced operations of one batch) at the rate
that a large product of the same precision reaches in the same run. On a CPU an epoch is measured on some of the images
and scaled; the time of an epoch without augmentation stands beside it.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from machine import product_rate, shared_folder, write
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from retrofit_core.data import Images, load
from retrofit_core.networks.architectures import ARCHITECTURES, PRESETS, build, fitted, parse
from retrofit_core.system import device as devices
from retrofit_core.system.monitor import Monitor
from retrofit_core.training import recipe, train

IMAGES = 10_000  # an epoch on a CPU, 50,000 on a GPU
BATCH = 128
SECONDS = 15  # of measuring, for one line of the table on a CPU
EPOCHS = 3  # measured after one that is discarded, on a GPU
NAMES = ["cnn", "vgg11-half", "vgg11", "vgg16", "resnet18", "resnet34", "resnet50", "vit-small", "vit"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architectures", nargs="*", help="presets or architectures; default: a choice of all kinds")
    chosen = parser.parse_args().architectures or [name for name in NAMES if name in {*PRESETS, *ARCHITECTURES}]
    images = load(shared_folder() / "data" / "cifar10")
    lines: list[dict[str, Any]] = []
    for device in dict.fromkeys([torch.device("cpu"), devices.pick()]):
        precisions = ["float32", "bfloat16"] if devices.gains_by_bfloat16(device) else ["float32"]
        rates = {name: product_rate(getattr(torch, name), device) for name in precisions}
        for name in chosen:
            for precision in precisions:
                line = measure(name, images, device, precision, rates[precision])
                lines.append(line)
                print("  ".join(f"{key} {_shown(value)}" for key, value in line.items()), flush=True)
                write("training", {"batch": BATCH, "rates": {str(device): rates}, "rows": lines})


def measure(name: str, images: Images, device: torch.device, precision: str, rate: float) -> dict[str, Any]:
    """One line of the table: seconds of an epoch with and without augmentation, and the floor."""
    count = IMAGES if device.type == "cpu" else len(images)
    flops = operations(_network(name, images)) * count
    settings = {**recipe("cifar", "cifar10"), "batch": BATCH, "precision": precision}
    plain = {**settings, "crop": 0, "flip": False, "policy": None, "cutmix": False}
    full, spread = seconds(name, images, device, count, settings)
    without, _ = seconds(name, images, device, count, plain)
    return {
        "architecture": name,
        "device": str(device),
        "precision": precision,
        "images": count,
        "seconds": full,
        "deviation": spread,
        "without augmentation": without,
        "floor": flops / rate,
        "times the floor": full / (flops / rate),
    }


def seconds(
    name: str,
    images: Images,
    device: torch.device,
    count: int,
    settings: dict[str, Any],
    cancelled: Callable[[], bool] | None = None,
) -> tuple[float, float]:
    """Mean and standard deviation over epochs, without the first, scaled to `count` images."""
    model = _network(name, images).to(device)
    if device.type == "cpu":
        step = _step_seconds(model, images)
        batches = max(4, min(count // BATCH, int(SECONDS / (EPOCHS + 1) / step)))
    else:
        batches = count // BATCH
    rows, ends = torch.arange(batches * BATCH), [time.perf_counter()]

    def note(event: dict[str, Any]) -> None:
        if event["kind"] == "epoch":
            devices.synchronise(device)
            ends.append(time.perf_counter())

    train(model, images, rows, **{**settings, "epochs": EPOCHS + 1, "holdout": 0.0}, monitor=Monitor(note, cancelled))
    epochs = [(end - start) * count / len(rows) for start, end in zip(ends[1:-1], ends[2:], strict=True)]
    return statistics.mean(epochs), statistics.stdev(epochs)


def operations(model: torch.nn.Module) -> float:
    """Floating-point operations of forward and backward pass, per image (a multiplication and an addition are two)."""
    inputs, labels = torch.randn(8, 3, 32, 32), torch.arange(8) % 10
    counter = FlopCounterMode(display=False)
    with counter:
        cross_entropy(model(inputs), labels).backward()
    return counter.get_total_flops() / len(inputs)


def _network(name: str, images: Images) -> torch.nn.Module:
    return build(fitted(parse(name), images.shape, len(images.classes)), seed=0)


def _step_seconds(model: torch.nn.Module, images: Images) -> float:
    inputs = images.inputs(torch.arange(BATCH))
    times = []
    for _ in range(2):
        start = time.perf_counter()
        model(inputs).sum().backward()
        times.append(time.perf_counter() - start)
    return times[-1]


def _shown(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
