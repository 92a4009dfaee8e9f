"""The gradient fit for any differentiable level (paper sec. 4.2.2 b and App. F.1)."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

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
    patience: int = 15,
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
        patience: epochs without improvement before stopping.
        perturbation: epsilon; the start is (1 - epsilon) x the held weights + epsilon x freshly initialised ones.
    Returns:
        One dict per epoch: epoch, loss (training), validation; epoch 0 is the start.
    """
    monitor = monitor or Monitor()
    module, axis = level.module, level.axis
    if perturbation:
        perturb(module, perturbation, generator)
    order = torch.randperm(len(inputs), generator=generator).to(inputs.device)
    count = min(len(order) - 1, max(1, round(validation * len(order))))
    held_out, train = order[:count], order[count:]
    scale = torch.ones(targets.shape[2]) if weights is None else weights * len(weights) / weights.sum()
    scale = scale.to(targets)

    def loss_on(which: Tensor) -> Tensor:
        outputs = rows(module(inputs[which]), axis).reshape(len(which), -1, targets.shape[2])
        return ((outputs - targets[which]).square() * scale).mean()

    def mean_loss(which: Tensor) -> float:
        with torch.no_grad():
            parts = which.split(max(batch_size, 64))
            return sum(loss_on(part).item() * len(part) for part in parts) / len(which)

    parameters = list(module.parameters())
    flags = [parameter.requires_grad for parameter in parameters]
    for parameter in parameters:
        parameter.requires_grad_(True)
    optimiser = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=weight_decay)
    best_loss, best_epoch, best = mean_loss(held_out), 0, _state(parameters)
    curve: list[dict[str, Any]] = [{"epoch": 0, "loss": mean_loss(train), "validation": best_loss}]
    for epoch in range(1, epochs + 1):
        monitor.check()
        total = torch.zeros((), device=inputs.device)
        for batch in train[torch.randperm(len(train), generator=generator).to(train.device)].split(batch_size):
            optimiser.zero_grad(set_to_none=True)
            loss = loss_on(batch)
            loss.backward()
            optimiser.step()
            total += loss.detach() * len(batch)
        curve.append({"epoch": epoch, "loss": total.item() / len(train), "validation": mean_loss(held_out)})
        monitor.emit("epoch", index=epoch, total=epochs, loss=curve[-1]["loss"], validation=curve[-1]["validation"])
        if curve[-1]["validation"] < best_loss:
            best_loss, best_epoch, best = curve[-1]["validation"], epoch, _state(parameters)
        elif epoch - best_epoch >= patience:
            break
    with torch.no_grad():
        for parameter, value, flag in zip(parameters, best, flags, strict=True):
            parameter.copy_(value)
            parameter.requires_grad_(flag)
            parameter.grad = None
    return curve


def _state(parameters: list[nn.Parameter]) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in parameters]


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
