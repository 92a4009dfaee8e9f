"""How fast this machine is, measured in about a tenth of a second.

Of several times the least counts: whatever else the machine does at that moment can only add to them, and with it the
median of three was found to be wrong by more than ten times.
"""

import copy
import json
import time
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from .. import device as devices
from ..architectures import build
from ..training.optimizers import OPTIMIZERS
from .planning import blank


@dataclass(frozen=True)
class Pace:
    """Of one network: a training step takes fixed + images x each seconds."""

    fixed: float
    each: float

    @property
    def forward(self) -> float:
        """Seconds of a forward pass for an image, in large batches: a third of a step's operations."""
        return self.each / 3


@lru_cache(maxsize=32)
def measure_pace(spec: str, device: str) -> Pace:
    """From steps of one image and of as many as a twentieth of a second holds; large networks, of which that is too few,
    are not faster than their operations at the rate of products."""
    place, shape = torch.device(device), _input_shape(spec)
    model = copy.deepcopy(blank(spec)).to(place)  # in evaluation mode, for BatchNorm would refuse single images
    stepper = OPTIMIZERS["adamw"](model.parameters(), 1e-3, 0.0)

    def seconds(images: int) -> float:
        x, y = torch.zeros(images, *shape, device=place), torch.zeros(images, dtype=torch.long, device=place)
        devices.synchronise(place)
        start = time.perf_counter()
        stepper.zero_grad()
        cross_entropy(model(x), y).backward()
        stepper.step()
        devices.synchronise(place)
        return time.perf_counter() - start

    seconds(1)
    one = min(seconds(1) for _ in range(5))
    images = int(min(max(4, 0.05 / one), 64))
    many = min(seconds(images) for _ in range(4))
    each = max((many - one) / (images - 1), _operations(spec) / products_rate(device, torch.float32))
    return Pace(max(one - each, 0.0), each)


def _input_shape(spec: str) -> list[int]:
    facts = json.loads(spec)
    return facts["sizes"][:1] if "sizes" in facts else [facts.get("channels", 3), *[facts.get("size", 32)] * 2]


def _operations(spec: str) -> float:
    """Of a training step, for each image; a backward pass takes two forward ones."""
    with torch.device("meta"):
        model, x = build(json.loads(spec)), torch.zeros(1, *_input_shape(spec))
    with FlopCounterMode(display=False) as counter:
        model(x)
    return 3.0 * counter.get_total_flops()


@lru_cache(maxsize=4)
def step_seconds(device: str) -> float:
    """Seconds of a gradient step at the smallest of levels: what is not arithmetic."""
    place = torch.device(device)
    level = nn.Linear(8, 8).to(place)
    stepper = torch.optim.AdamW(level.parameters(), lr=0.0)
    x, times = torch.zeros(8, 8, device=place), []
    for _ in range(20):
        start = time.perf_counter()
        stepper.zero_grad()
        level(x).square().mean().backward()
        stepper.step()
        devices.synchronise(place)
        times.append(time.perf_counter() - start)
    return min(times)


@lru_cache(maxsize=4)
def products_rate(device: str, dtype: torch.dtype) -> float:
    """Floating-point operations a second of a product of matrices."""
    place = torch.device(device)
    size = 512 if place.type == "cpu" else 4096
    a, times = torch.ones(size, size, dtype=dtype, device=place), []
    for _ in range(8):
        devices.synchronise(place)
        start = time.perf_counter()
        torch.mm(a, a)
        devices.synchronise(place)
        times.append(time.perf_counter() - start)
    return 2 * size**3 / min(times)
