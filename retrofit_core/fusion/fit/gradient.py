"""The gradient fit for any differentiable level (paper sec. 4.2.2 b and App. F.1)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from ...system.duplicates import duplicate
from ...system.settings import FRACTION, setting
from ...training.descent import Descent, renew
from .base import Fit


@torch.no_grad()
def perturb(module: nn.Module, amount: float, generator: torch.Generator) -> None:
    """Make weights (1 - amount) x old + amount x fresh ones, see `renew`."""
    seed = int(torch.randint(2**31, (1,), generator=generator))
    fresh = duplicate(module)
    # torch initialisers use the global generator: seed a fork and leave the caller's alone
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        renew(fresh)
    for parameter, new in zip(module.parameters(), fresh.parameters(), strict=True):
        parameter.lerp_(new, amount)


@dataclass(frozen=True)
class Gradient(Descent, Fit):
    """Gradient descent (AdamW) on the squared distance to the targets, in evaluation mode (no dropout); for levels of any kind.

    It starts at parent 0's weights, or at the mapped mean of the parents' where shapes differ. The best epoch on the held-out
    samples is restored, including the start (epoch 0). With a perturbation epsilon, the start is (1 - epsilon) x these weights +
    epsilon x freshly initialised ones. Plain MSE unless errors are weighted: near-zero scores would starve those neurons of
    gradient and spoil later levels (App. B.2).
    """

    least_samples: ClassVar[int] = 10

    perturbation: float = setting(
        0.0, "0: start from parent 0's weights; 1: start from random weights", FRACTION, title="Fresh start"
    )
    weighted_loss: bool = setting(
        False, "weight each neuron's error by its importance", title="Weight errors by importance"
    )
