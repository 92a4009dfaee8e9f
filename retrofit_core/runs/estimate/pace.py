"""How fast this machine is, measured in about a tenth of a second.

Small networks are run; what would take longer than QUICK for a step is counted instead, operation by operation, at the
rates of this machine. Of several times the least counts: whatever else the machine does at that moment can only add to
them, and with it the median of three was found to be wrong by more than ten times.
"""

import copy
import json
import time
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ...networks.architectures import build, input_shape_of
from ...networks.outputs import logits_in
from ...system import device as devices
from ...training.optimizers import OPTIMIZERS
from .planning import blank

#: Seconds that one training step of a network may take for it to be measured; it is then run about ten times.
QUICK = 0.02
#: Share of the rate of products that whole networks reach: 0.35 (ViT, double VGG16) to 0.7 (CNN, VGG11), at 32 images.
EFFICIENCY = 0.5


@dataclass(frozen=True)
class Pace:
    """The pace of one network: a training step takes fixed + images x per_image seconds."""

    fixed: float
    per_image: float

    @property
    def forward(self) -> float:
        """Seconds of a forward pass for an image, in large batches: a third of a step's operations."""
        return self.per_image / 3


@lru_cache(maxsize=32)
def pace_of(spec: str, device: str) -> Pace:
    """Counted, or for a small network measured; measuring large ones would take too long."""
    counted = _counted(spec, device)
    return _measured(spec, device, counted) if counted.fixed + counted.per_image < QUICK else counted


def forward_seconds(spec: str, device: str = "cpu") -> float:
    """Seconds that a network of a spec (JSON) takes for an image, in batches."""
    return pace_of(spec, device).forward


def _counted(spec: str, device: str) -> Pace:
    """Operations at the rate of products, and the optimiser's work on all parameters."""
    model = blank(spec)
    layers = sum(next(module.parameters(recurse=False), None) is not None for module in model.modules())
    parameters = sum(parameter.numel() for parameter in model.parameters())
    fixed = layers * step_seconds(device) / 4 + parameters * update_seconds(device)
    return Pace(fixed, operations(spec) / products_rate(device, torch.float32) / EFFICIENCY)


def _measured(spec: str, device: str, counted: Pace) -> Pace:
    """From steps of one image and of as many as a twentieth of a second holds; never faster than the rate of products."""
    chosen_device = torch.device(device)
    model = copy.deepcopy(blank(spec)).to(chosen_device)  # in evaluation mode, for BatchNorm would refuse single images
    stepper = OPTIMIZERS["adamw"](model.parameters(), 1e-3, 0.0)

    def seconds(images: int) -> float:
        x, y = (
            torch.zeros(images, *input_shape_of(model), device=chosen_device),
            torch.zeros(images, dtype=torch.long, device=chosen_device),
        )
        devices.synchronise(chosen_device)
        start = time.perf_counter()
        stepper.zero_grad()
        cross_entropy(logits_in(model(x)), y).backward()
        stepper.step()
        devices.synchronise(chosen_device)
        return time.perf_counter() - start

    seconds(1)
    single = min(seconds(1) for _ in range(5))
    images = int(min(max(4, 0.05 / single), 64))
    many = min(seconds(images) for _ in range(4))
    per_image = max((many - single) / (images - 1), counted.per_image * EFFICIENCY)
    return Pace(max(single - per_image, 0.0), per_image)


@lru_cache(maxsize=32)
def operations(spec: str) -> float:
    """Of a training step, for each image; a backward pass takes two forward ones."""
    with torch.device("meta"):
        model = build(json.loads(spec)).eval()
    from torch.utils.flop_counter import FlopCounterMode

    x = torch.zeros(1, *input_shape_of(model), device=devices.of(model))  # networks of others are on the CPU
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(x)
    return 3.0 * counter.get_total_flops()


@lru_cache(maxsize=4)
def step_seconds(device: str) -> float:
    """Seconds of a gradient step at the smallest of levels: what is not arithmetic."""
    chosen_device = torch.device(device)
    level = nn.Linear(8, 8).to(chosen_device)
    return _step(
        level, torch.zeros(8, 8, device=chosen_device), torch.optim.AdamW(level.parameters(), lr=0.0), chosen_device, 20
    )


@lru_cache(maxsize=4)
def update_seconds(device: str) -> float:
    """Seconds for each parameter that a step takes, whatever its batch, on layers too large for the processor's caches."""
    chosen_device, size = torch.device(device), 2048
    layer, x = nn.Linear(size, size, bias=False).to(chosen_device), torch.zeros(1, size, device=chosen_device)
    stepper = OPTIMIZERS["adamw"](layer.parameters(), 1e-3, 0.0)
    return _step(layer, x, stepper, chosen_device, 4) / size**2


def _step(
    layer: nn.Module, x: torch.Tensor, stepper: torch.optim.Optimizer, chosen_device: torch.device, times: int
) -> float:
    """Seconds of a training step of one layer, the quickest of several."""
    seconds = []
    for _ in range(times):
        devices.synchronise(chosen_device)
        start = time.perf_counter()
        stepper.zero_grad()
        layer(x).square().mean().backward()
        stepper.step()
        devices.synchronise(chosen_device)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


@lru_cache(maxsize=4)
def products_rate(device: str, dtype: torch.dtype) -> float:
    """Floating-point operations a second of a product of matrices.

    On a CPU, waiting for a processor does not count, where that can be told: `crowding` speaks of it.
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
