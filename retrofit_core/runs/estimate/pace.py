"""The speed of this machine, measured in about a tenth of a second.

Small networks are run; those that need longer than QUICK per step are predicted from operation counts at this machine's rates.
Of several measurements the minimum counts, because other load can only add time; under load, the median of three was wrong
by more than a factor of ten.
"""

import copy
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ...networks.architectures import build, input_shape_of
from ...networks.outputs import logits_in
from ...system import device as devices
from ...training.optimizers import OPTIMIZERS
from ..leaderboard import operations as multiply_adds
from .planning import blank

#: Longest training step, in seconds, of networks to measure; these run about ten steps.
QUICK = 0.02
#: Share of the matrix-product rate that whole networks reach: 0.35 (ViT, double VGG16) to 0.7 (CNN, VGG11), at 32 images.
EFFICIENCY = 0.5


@dataclass(frozen=True)
class Pace:
    """The pace of one network: a training step takes fixed + images x per_image seconds."""

    fixed: float
    per_image: float

    @property
    def forward(self) -> float:
        """Seconds per image of a forward pass in large batches: a third of a step's operations."""
        return self.per_image / 3


@lru_cache(maxsize=32)
def pace_of(spec: str, device: str) -> Pace:
    """Measured for a small network, else counted; measuring large ones would take too long."""
    counted = _counted(spec, device)
    return _measured(spec, device, counted) if counted.fixed + counted.per_image < QUICK else counted


def forward_seconds(spec: str, device: str = "cpu") -> float:
    """Seconds per image of a network given by its spec (JSON), in batches."""
    return pace_of(spec, device).forward


def _counted(spec: str, device: str) -> Pace:
    """Operations at the matrix-product rate, and the optimiser's work on all parameters."""
    model = blank(spec)
    layers = sum(next(module.parameters(recurse=False), None) is not None for module in model.modules())
    parameters = sum(parameter.numel() for parameter in model.parameters())
    fixed = layers * step_seconds(device) / 4 + parameters * update_seconds(device)
    return Pace(fixed, operations(spec) / products_rate(device, torch.float32) / EFFICIENCY)


def _measured(spec: str, device: str, counted: Pace) -> Pace:
    """Time steps of one image and of as many as fit into 0.05 s; never faster than the matrix-product rate."""
    model = copy.deepcopy(blank(spec)).to(device)  # in eval mode: BatchNorm would refuse single images
    stepper = OPTIMIZERS["adamw"](model.parameters(), 1e-3, 0.0)

    def seconds(images: int, times: int) -> float:
        x = torch.zeros(images, *input_shape_of(model), device=device)
        y = torch.zeros(images, dtype=torch.long, device=device)
        return _quickest(lambda: cross_entropy(logits_in(model(x)), y), stepper, device, times)

    seconds(1, 1)
    single = seconds(1, 5)
    images = int(min(max(4, 0.05 / single), 64))
    per_image = max((seconds(images, 4) - single) / (images - 1), counted.per_image * EFFICIENCY)
    return Pace(max(single - per_image, 0.0), per_image)


@lru_cache(maxsize=32)
def operations(spec: str) -> float:
    """Operations of a training step per image; a backward pass costs two forward passes."""
    with torch.device("meta"):
        model = build(json.loads(spec)).eval()
    x = torch.zeros(1, *input_shape_of(model), device=devices.of(model))  # foreign networks are on the CPU
    return 6.0 * multiply_adds(model, x)


@lru_cache(maxsize=4)
def step_seconds(device: str) -> float:
    """Seconds of a gradient step at the smallest level: the overhead."""
    level = nn.Linear(8, 8).to(device)
    return _step(level, 8, torch.optim.AdamW(level.parameters(), lr=0.0), device, 20)


@lru_cache(maxsize=4)
def update_seconds(device: str) -> float:
    """Seconds per parameter of a step, independent of batch size, on layers too large for CPU caches."""
    layer = nn.Linear(2048, 2048, bias=False).to(device)
    return _step(layer, 1, OPTIMIZERS["adamw"](layer.parameters(), 1e-3, 0.0), device, 4) / layer.weight.numel()


def _step(layer: nn.Linear, rows: int, stepper: torch.optim.Optimizer, device: str, times: int) -> float:
    """Seconds of the fastest of several training steps of one layer."""
    x = torch.zeros(rows, layer.in_features, device=device)
    return _quickest(lambda: layer(x).square().mean(), stepper, device, times)


def _quickest(loss: Callable[[], torch.Tensor], stepper: torch.optim.Optimizer, device: str, times: int) -> float:
    """Seconds of the fastest of some steps."""
    seconds, chosen_device = [], torch.device(device)
    for _ in range(times):
        devices.synchronise(chosen_device)
        start = time.perf_counter()
        stepper.zero_grad()
        loss().backward()
        stepper.step()
        devices.synchronise(chosen_device)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


@lru_cache(maxsize=4)
def products_rate(device: str, dtype: torch.dtype) -> float:
    """Floating-point operations per second of a matrix product.

    On a CPU, excludes time waiting for a core where possible; `crowding` accounts for that.
    """
    chosen_device = torch.device(device)
    on_cpu = chosen_device.type == "cpu"
    size = 512 if on_cpu else 4096
    a, times = torch.ones(size, size, dtype=dtype, device=chosen_device), []
    for _ in range(8):
        devices.synchronise(chosen_device)
        start, processor = time.perf_counter(), time.process_time()
        torch.mm(a, a)
        devices.synchronise(chosen_device)
        times.append(time.perf_counter() - start)
        if on_cpu:
            times.append((time.process_time() - processor) / torch.get_num_threads())
    return 2 * size**3 / min(times)
