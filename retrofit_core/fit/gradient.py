"""The gradient fit for any differentiable level (paper sec. 4.2.2 b and App. F.1)."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from ..descent import descend
from ..levels import Level, rows
from ..monitor import Monitor


def gradient(
    level: Level,
    inputs: Tensor,
    targets: Tensor,
    *,
    generator: torch.Generator,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-4,
    epochs: int = 100,
    batch_size: int = 32,
    validation: float = 0.1,
    patience: int | None = 15,
    perturbation: float = 0.0,
    weights: Tensor | None = None,
    monitor: Monitor | None = None,
) -> list[dict[str, Any]]:
    """Fit a level to its targets by AdamW from the weights that it holds, in evaluation mode (no dropout).

    Plain MSE, not score-weighted: near-zero scores would starve those neurons of gradient and spoil later levels
    (App. B.2); `weights` (d,) gives the weighted form. The best epoch on the held-out samples is restored, the start
    (epoch 0) included.

    Args:
        inputs: (B, ...) boundary tensors of the fused network.
        targets: (B, positions, d).
        validation: share of the samples held out.
        patience: epochs without improvement before stopping; None: never.
        perturbation: epsilon; the start is (1 - epsilon) x the held weights + epsilon x freshly initialised ones.
    Returns:
        One dict per epoch: epoch, loss (training), validation; epoch 0 is the start.
    """
    module, axis = level.module, level.axis
    if perturbation:
        perturb(module, perturbation, generator)
    scale = torch.ones(targets.shape[2]) if weights is None else weights * len(weights) / weights.sum()
    scale = scale.to(targets)

    def loss(samples: Tensor) -> Tensor:
        outputs = rows(module(inputs[samples]), axis).reshape(len(samples), -1, targets.shape[2])
        return ((outputs - targets[samples]).square() * scale).mean()

    def measure(samples: Tensor) -> float:
        parts = samples.split(max(batch_size, 64))
        return sum(loss(part).item() * len(part) for part in parts) / len(samples)

    return descend(
        module,
        len(inputs),
        loss,
        measure,
        generator=generator,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        epochs=epochs,
        batch_size=batch_size,
        validation=validation,
        patience=patience,
        monitor=monitor,
    )


@torch.no_grad()
def perturb(module: nn.Module, amount: float, generator: torch.Generator) -> None:
    """(1 - amount) x the weights + amount x freshly initialised ones, in every submodule that can initialise itself."""
    seed = int(torch.randint(2**31, (1,), generator=generator))
    fresh = copy.deepcopy(module)
    # torch initialisers draw from the global generator: seed a fork of it and leave the caller's untouched
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for part in fresh.modules():
            if callable(getattr(part, "reset_parameters", None)):
                part.reset_parameters()  # type: ignore[operator]
    for parameter, new in zip(module.parameters(), fresh.parameters(), strict=True):
        parameter.lerp_(new, amount)
