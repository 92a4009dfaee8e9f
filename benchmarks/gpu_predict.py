"""Seconds that fusions would take on an H100, from what they ask of it: `python benchmarks/gpu.py --predict`.

A rehearsal (tests/rehearsal.py) carries the fusions out on the CPU and tells what the host would ask of the device. Two clocks
run along. The host's goes on with every launch; the device begins a kernel when it is free and the host has launched it, and
works on it until its operations or its bytes are done, whichever takes longer. A wait or a copy sets the host's clock to the
device's. What this leaves out: the time of Python between launches, and of what the core computes on the CPU on purpose.
"""

import itertools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import torch
from machine import RESULTS, save
from methods import PAPER, content
from pairs import PAIRS, config
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from retrofit_core import METHODS
from retrofit_core.data import load
from retrofit_core.inspection.landscape import Mixtures
from retrofit_core.networks.architectures import build, fitted, parse
from retrofit_core.runs import read_inputs
from retrofit_core.training import recipe, train

sys.path.append(str(Path(__file__).parents[1]))
from tests.rehearsal import Counts, rehearsal

#: Host: what eager PyTorch usually takes for a launch, and for a read of a number behind an empty queue. Not measured here.
LAUNCH, WAIT = 5e-6, 20e-6
#: NVIDIA H100 SXM data sheet, without sparsity, operations a second: products (tensor cores where PyTorch uses them by
#: default: float64, and float32 convolutions, which may round to TF32), bytes a second of the memory, and of PCIe 5.
PRODUCTS = {torch.float64: 67e12, torch.float32: 67e12, torch.bfloat16: 989e12, torch.float16: 989e12}
CONVOLUTIONS = {**PRODUCTS, torch.float32: 494e12}
MEMORY, PCIE = 3.35e12, 64e9
#: Shares of these peaks that large products and copies, and factorisations reach: assumptions.
REACHED, FACTORISED = 0.7, 0.15

#: Seconds that work on one H100 is meant to take at most.
GOALS = {
    "VGG11 pair, 400 samples, HF-Linear": 0.7,
    "VGG11 pair, 400 samples, KF-Linear": 0.7,
    "VGG11 pair, 400 samples, KF-Gradient": 1.7,
    "ViT pair, 400 samples, KF-Gradient": 4.0,
    "ViT pair, 6,000 samples, KF-Gradient": 60.0,
    "VGG11, an epoch of 50,000 images": 1.0,
    "VGG11 landscape, 41 x 41 points, 2,000 images": 60.0,
}
BUSY = "of these the device works"


@dataclass
class Clocks(Counts):
    """Counts, and the seconds of host and device."""

    host: float = 0.0
    device: float = 0.0
    busy: float = 0.0
    """Seconds of the device's work"""
    operations: float = 0.0

    def launch(self, name: str, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        super().launch(name, func, args, kwargs, out)
        read = [leaf for leaf in tree_leaves((args, kwargs, out)) if isinstance(leaf, Tensor)]
        operations = _operations(name, func, args, kwargs, out)
        rates = CONVOLUTIONS if "convolution" in name else PRODUCTS
        rate = rates.get(next((t.dtype for t in read if t.is_floating_point()), torch.float32), 67e12)
        rate *= FACTORISED if name in FACTORISATIONS else REACHED
        seconds = max(operations / rate, sum(tensor.nbytes for tensor in read) / (MEMORY * REACHED))
        self.host += LAUNCH
        self.device = max(self.device, self.host) + seconds
        self.busy, self.operations = self.busy + seconds, self.operations + operations

    def wait(self, name: str) -> None:
        super().wait(name)
        self._met(WAIT)

    def copy(self, to: torch.device, name: str, bytes: int) -> None:
        super().copy(to, name, bytes)
        self._met(WAIT + bytes / (PCIE * REACHED))

    def synchronise(self, *rest: Any) -> None:
        super().synchronise(*rest)
        self._met(WAIT)

    def _met(self, seconds: float) -> None:
        self.host = self.device = max(self.host, self.device) + seconds

    def row(self) -> dict[str, Any]:
        """Counts, and seconds until host and device are done."""
        return {
            "launches": self.launches,
            "waits": self.waits,
            "to device": self.to_device,
            "to host": self.to_host,
            "synchronises": self.synchronises,
            "predicted, seconds": max(self.host, self.device),
            BUSY: self.busy,
            "operations": self.operations,
            "most waits": [
                {"cause": f"{kind} {name}".strip(), "line": line, "times": times}
                for (kind, name, line), times in self.causes.most_common(8)
            ],
        }


def _solve(factor: Tensor, right: Tensor) -> float:
    return 2 * factor.shape[-1] * prod(right.shape)


#: Operations of what PyTorch's counter leaves out, as LAPACK counts them: of (n, n), and of solves with it.
FACTORISATIONS = {
    "linalg_cholesky_ex": lambda x, *_: x.shape[-1] ** 3 / 3 * prod(x.shape[:-2]),
    "cholesky_inverse": lambda x, *_: x.shape[-1] ** 3 * 2 / 3,
    "_linalg_eigh": lambda x, *_: 9 * x.shape[-1] ** 3 * prod(x.shape[:-2]),
    "linalg_solve_triangular": lambda x, right, *_: _solve(x, right) / 2,
    "triangular_solve": lambda right, x, *_: _solve(x, right) / 2,
    "cholesky_solve": lambda right, factor, *_: _solve(factor, right),
    "_linalg_solve_ex": lambda x, right, *_: x.shape[-1] ** 3 * 2 / 3 + _solve(x, right),
}


def _operations(name: str, func: Any, args: Any, kwargs: Any, out: Any) -> float:
    """Floating-point operations: those of FlopCounterMode, and of factorisations."""
    if name in FACTORISATIONS:
        return FACTORISATIONS[name](*args)
    counter = flop_registry.get(func._overloadpacket)
    return counter(*args, **kwargs, out_val=out) if counter else 0.0


def predict(models: Path | None, record: str = "gpu-predicted") -> None:
    """Print a line a fusion, and write the record."""
    rows: dict[str, Any] = {}

    def keep(name: str, row: dict[str, Any]) -> None:
        rows[name] = row | ({"goal, seconds": GOALS[name]} if name in GOALS else {})
        print(_line(name, rows[name]), flush=True)
        save(RESULTS / f"{record}.json", {"constants": constants(), "rows": rows})

    for name, (networks, samples, method, options) in fusions(models).items():
        row = {"method": method, **counted(partial(METHODS[method], networks, samples, device="cuda", **options))}
        if name.startswith("VGG11") and method in PAPER["seconds"]:
            row["paper, seconds"] = PAPER["seconds"][method]
        keep(name, row)
    for name, (work, axes) in large_works(models).items():
        keep(name, continued(work, axes))


def counted(work: Callable[[], Any]) -> dict[str, Any]:
    """The row of some work on the device."""
    with rehearsal(Clocks()) as clocks:
        work()
    return clocks.row()  # type: ignore[attr-defined]


def continued(work: Callable[..., Any], axes: Mapping[str, tuple[int, int, int]]) -> dict[str, Any]:
    """The row of a work that is too large to be carried out: linear in each of its sizes.

    Args:
        work: is given a size for each axis.
        axes: name -> two sizes to carry out, and the whole.
    """
    totals: dict[str, float] = {}
    for corner in itertools.product((0, 1), repeat=len(axes)):
        sizes, share = [], 1.0
        for end, (low, high, whole) in zip(corner, axes.values(), strict=True):
            sizes.append((low, high)[end])
            share *= ((whole - low) if end else (high - whole)) / (high - low)
        for key, value in counted(partial(work, *sizes)).items():
            if not isinstance(value, list):
                totals[key] = totals.get(key, 0.0) + share * value
    row = {key: value if "seconds" in key or key == BUSY else round(value) for key, value in totals.items()}
    return row | {"continued from": {name: list(sizes) for name, sizes in axes.items()}}


def _line(name: str, row: Mapping[str, Any]) -> str:
    copies, paper, goal = row["to device"] + row["to host"], row.get("paper, seconds"), row.get("goal, seconds")
    return (
        f"{name}: {row['predicted, seconds']:.2f} s ({row[BUSY]:.2f} s of work); "
        f"{row['launches']:,} launches, {row['waits']:,} waits, {copies:,} copies, {row['synchronises']:,} synchronises"
        + (f"; the paper's {paper} s" if paper else "")
        + (f"; goal {goal} s" if goal else "")
    )


def constants() -> dict[str, Any]:
    """What the prediction assumes."""
    return {
        "launch, seconds": LAUNCH,
        "wait, seconds": WAIT,
        "products a second": {str(dtype).removeprefix("torch."): rate for dtype, rate in PRODUCTS.items()},
        "float32 convolutions a second": CONVOLUTIONS[torch.float32],
        "bytes a second": MEMORY,
        "bytes a second to and from the host": PCIE,
        "share of the peaks reached": REACHED,
        "share of the peak in factorisations": FACTORISED,
        "sources": "NVIDIA H100 SXM data sheet (peaks); launch, wait and shares are assumptions until they are measured",
    }


def fusions(models: Path | None) -> dict[str, tuple[Any, Any, str, dict[str, Any]]]:
    """name -> networks, samples, method, options. Small networks without training need no files: counts tell no difference."""
    digits = load("digits")
    x, y = digits.inputs(range(400)), digits.labels[:400]
    cnn = [build({"architecture": "cnn", "widths": [16, 32, 32]}, seed=seed) for seed in (0, 1)]
    spec = {"architecture": "resnet", "layers": [2, 2, 2, 2], "width": 8, "size": 8, "channels": 1}
    resnet = [build(spec, seed=seed) for seed in (0, 1)]
    spec = {"architecture": "vit", "hidden": 16, "depth": 4, "heads": 2, "mlp_width": 32, "size": 8, "channels": 1}
    vit = [build({**spec, "patch": 2}, seed=seed) for seed in (0, 1)]
    few = (x[:60], y[:60])
    scored = {"importance": "conductance", "importance_data": "fusion"}
    result = {
        "CNN of 4 levels, HF-Linear": (cnn, (x, y), "HF-Linear", {}),
        "CNN of 4 levels, KF-Linear": (cnn, (x, y), "KF-Linear", {}),
        "CNN of 4 levels, 60 samples, Fisher": (cnn, few, "Fisher", {}),
        "ResNet-18 of width 8, 60 samples, HF-Linear": (resnet, few, "HF-Linear", {}),
        "ResNet-18 of width 8, 60 samples, KF-Linear": (resnet, few, "KF-Linear", {}),
        "ResNet-18 of width 8, 60 samples, KF-Linear, conductance": (resnet, few, "KF-Linear", scored),
        "ViT of 4 blocks, 60 samples, KF-Linear": (vit, few, "KF-Linear", {}),
    }
    if models is not None:
        inputs = read_inputs(config(models.parent, next(iter(PAIRS))))
        for method in ("HF-Linear", "KF-Linear", "KF-Gradient", "OTFusion", "Git-Re-Basin"):
            options = content(method, inputs)
            result[f"VGG11 pair, 400 samples, {method}"] = (inputs.models, inputs.fusion, method, options)
    return result


def large_works(models: Path | None) -> dict[str, tuple[Callable[..., Any], dict[str, tuple[int, int, int]]]]:
    """name -> work, and its sizes. Networks of random weights do, for no count depends on a weight but where training stops
    early: here it takes all epochs."""
    if models is None:
        return {}
    images, generator = load(models.parent / "data" / "cifar10"), torch.Generator().manual_seed(0)
    vits = [build(fitted(parse("vit"), (3, 32, 32), 100), seed=seed) for seed in (0, 1)]
    vggs = [build(fitted(parse("vgg11"), (3, 32, 32), 10), seed=seed) for seed in range(3)]
    x, y = images.inputs(torch.arange(2000)), images.labels[:2000]

    def gradient(samples: int, epochs: int) -> None:
        METHODS["KF-Gradient"](vits, (x[:samples], y[:samples]), device="cuda", epochs=epochs)

    def epoch(steps: int) -> None:
        settings = {**recipe("paper", "cifar10", architecture="vgg"), "epochs": 1, "holdout": 0.0}
        rows = torch.arange(steps * settings["batch"])
        train(build(vggs[0].spec), images, rows, device="cuda", **settings)

    def points(count: int) -> None:
        mixtures = Mixtures({str(k): network for k, network in enumerate(vggs)}, x, y, device=torch.device("cuda", 0))
        mixtures.measure(torch.rand(count, 3, generator=generator, dtype=torch.float64))

    steps = -(-50_000 // recipe("paper", "cifar10", architecture="vgg")["batch"])
    return {
        "VGG11, an epoch of 50,000 images": (epoch, {"steps": (2, 4, steps)}),
        "VGG11 landscape, 41 x 41 points, 2,000 images": (points, {"points": (1, 2, 41 * 41)}),
        **{
            f"ViT pair, {samples:,} samples, KF-Gradient": (
                gradient,
                {"samples": (64, 128, samples), "epochs": (1, 2, 100)},
            )
            for samples in (400, 6000)
        },
    }
