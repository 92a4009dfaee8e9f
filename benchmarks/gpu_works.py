"""Works of stage 2 beside the methods on the VGG11 pair: what the device reaches, other networks, a landscape."""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from gpu_call import Call
from machine import product_rate

from retrofit_core import METHODS
from retrofit_core.data import load
from retrofit_core.inspection.landscape import Mixtures
from retrofit_core.networks.architectures import build, fitted, parse
from retrofit_core.system import device as devices

#: Networks of random weights, and those of a smoke test: how long a closed form takes does not depend on the weights.
NETWORKS = {
    "ViT": ("vit", '{"architecture": "vit", "patch": 4, "hidden": 16, "depth": 1, "heads": 2, "mlp_width": 16}'),
    "ResNet-18": ("resnet18", '{"architecture": "resnet", "layers": [1, 1], "width": 4}'),
    "VGG11": ("vgg11", '{"architecture": "vgg", "plan": [6, "M", 8, "M"]}'),
}
#: Points of a landscape, of which some are measured.
POINTS, MEASURED = 41 * 41, 164
REPEATS = 5


def works(call: Call) -> dict[str, Callable[[], dict[str, Any]]]:
    """Unit -> what measures it."""
    return {
        "KF-Linear, two ViTs": partial(fusion, call, "ViT"),
        "KF-Linear, two ResNet-18s": partial(fusion, call, "ResNet-18"),
        "landscape": partial(landscape, call),
        "ceilings": partial(ceilings, call.device, small=call.smoke),
    }


def networks(call: Call, name: str, count: int) -> list[torch.nn.Module]:
    """Networks of random weights for the call's images, as they are at work: without gradients of their own."""
    images = load(call.data)
    spec = fitted(parse(NETWORKS[name][call.smoke]), images.shape, len(images.classes))
    return [build(spec, seed=seed).eval() for seed in range(count)]


def fusion(call: Call, name: str) -> dict[str, float]:
    """Seconds of KF-Linear on two networks and `call.samples` images, after a fusion that loads kernels."""
    images, pair = load(call.data), networks(call, name, 2)
    rows = torch.arange(call.samples)
    data = (images.inputs(rows), images.labels[rows])
    return {"seconds": seconds(lambda: METHODS["KF-Linear"](pair, data, device=call.device), call.device, 1)}


def landscape(call: Call) -> dict[str, float]:
    """Seconds of a landscape between three VGG11s on 2,000 images; from a tenth of its points, for each takes as long."""
    images, count, some = load(call.data), 100 if call.smoke else 2000, 8 if call.smoke else MEASURED
    rows = torch.arange(count)
    named = {str(k): network for k, network in enumerate(networks(call, "VGG11", 3))}
    mixtures = Mixtures(named, images.inputs(rows), images.labels[rows], device=call.device)
    shares = torch.rand(some, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return {
        "seconds": seconds(lambda: mixtures.measure(shares), call.device, 1) * POINTS / some,
        "points measured": some,
    }


def ceilings(device: torch.device, small: bool = False) -> dict[str, float]:
    """What the device reaches: operations and bytes a second, and the time of small things."""
    size, images, elements, factors = (128, 8, 1 << 16, (32, 64)) if small else (8192, 2048, 1 << 29, (1024, 4608))
    result: dict[str, float] = {}
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        rate = product_rate(dtype, device, size)
        result[f"products, {str(dtype).removeprefix('torch.')}, TFLOP/s"] = rate / 1e12
    x, kernel = torch.randn(images, 256, 16, 16, device=device), torch.randn(256, 256, 3, 3, device=device)
    taken = seconds(lambda: torch.nn.functional.conv2d(x, kernel, padding=1), device)
    result["convolutions, float32 as PyTorch has them, TFLOP/s"] = 2 * images * 16 * 16 * 256 * 256 * 9 / taken / 1e12
    source = torch.randn(elements, device=device)
    target = torch.empty_like(source)
    result["copy, TB/s"] = 2 * source.nbytes / seconds(lambda: target.copy_(source), device) / 1e12
    numbers = torch.zeros(8, device=device)
    result["a launch, us"] = seconds(lambda: [numbers.add_(1) for _ in range(1000)], device) * 1e3
    result["reading a number, us"] = seconds(lambda: [numbers[0].item() for _ in range(300)], device) / 300 * 1e6
    for width in factors:
        root = torch.randn(width, width, device=device, dtype=torch.float64)
        matrix = root @ root.T + width * torch.eye(width, device=device, dtype=torch.float64)
        result[f"Cholesky, float64, {width:,}, ms"] = seconds(partial(torch.linalg.cholesky_ex, matrix), device) * 1e3
        if width == factors[0]:
            result[f"eigh, float64, {width:,}, ms"] = seconds(partial(torch.linalg.eigh, matrix), device, 1) * 1e3
    return result


def seconds(work: Callable[[], Any], device: torch.device, repeats: int = REPEATS) -> float:
    """Median time of some work on the device, after one that is discarded."""
    times = []
    for _ in range(repeats + 1):
        devices.synchronise(device)
        start = time.perf_counter()
        work()
        devices.synchronise(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])
