"""Gradient descent: an epoch of steps, the best epoch so far, and the loop for all fits to fixed data.

Training of classifiers uses `stepping`, `one_epoch` and `Best` too, but has its own loop (`training.loop`), which can resume,
augments images and follows a schedule.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..system import device as devices
from ..system.graphs import replayed
from ..system.monitor import Monitor
from ..system.settings import AT_LEAST_ONE, COUNT, Range, Value, setting


@dataclass
class Best:
    """The state of a module at its best epoch so far."""

    module: nn.Module
    quality: Any = None
    """Higher is better"""
    epoch: int = 0
    state: dict[str, Any] = field(default_factory=dict)

    def offer(self, epoch: int, quality: object) -> None:
        """Keep the module's current state if it is the best so far."""
        if not self.state or quality > self.quality:
            self.quality, self.epoch = quality, epoch
            self.state = copy.deepcopy(self.module.state_dict())

    def restore(self) -> None:
        """Restore the module's best state."""
        self.module.load_state_dict(self.state)


def stepping(
    loss: Callable[..., Tensor],
    optimiser: torch.optim.Optimizer,
) -> Callable[..., Tensor]:
    """A function that takes one step on a batch, as tensors by position, and returns the loss before it, a scalar.

    On a GPU it replays a graph, see `replayed`, if the optimiser reads all that changes from the GPU.

    Args:
        loss: mean loss of a batch.
    """

    def step(*batch: Tensor) -> Tensor:
        optimiser.zero_grad(set_to_none=True)
        error = loss(*batch)
        error.backward()
        optimiser.step()
        return error.detach()

    groups = optimiser.param_groups
    if all(group.get("capturable") for group in groups):
        return replayed(step, groups[0]["params"][0].device)
    return step


def one_epoch(
    batches: Iterable[tuple[Tensor, ...]],
    step: Callable[..., Tensor],
    *,
    before_step: Callable[[int], object] = lambda _: None,
    after_step: Callable[[int], object] = lambda _: None,
) -> float:
    """Take one step per batch.

    Args:
        batches: tensors of as many samples each.
        step: of `stepping`.
        before_step, after_step: called with the batch index.
    Returns:
        The mean loss over the samples, each at the weights before its step.
    """
    total, samples = torch.zeros(()), 0
    for index, batch in enumerate(batches):
        before_step(index)
        error = step(*batch)
        # Summed on the device, because the host runs ahead of it.
        total = total.to(error.device)
        total += error * len(batch[0])
        samples += len(batch[0])
        after_step(index)
    return total.item() / samples


@dataclass(frozen=True)
class Descent(Value):
    """AdamW and its stopping rule: settings of all fits to fixed data (paper, App. F.1)."""

    learning_rate: float = setting(1e-3, "learning rate of AdamW", Range(0, without_low=True))
    weight_decay: float = setting(1e-4, "weight decay of AdamW", Range(0))
    epochs: int = setting(100, "maximum passes over the fusion data", COUNT)
    batch_size: int = setting(32, "batch size", AT_LEAST_ONE)
    validation: float = setting(
        0.1,
        "share of the samples to hold out for choosing the best epoch",
        Range(0, 1, without_low=True, without_high=True),
    )
    patience: int | None = setting(
        15, "epochs without improvement before training stops; none: never stop early", COUNT
    )


@torch.no_grad()
def renew(module: nn.Module) -> None:
    """Reinitialise all parameters from torch's global generator.

    Modules initialise themselves (nn.MultiheadAttention by its private method); other parameters, such as class tokens, are
    drawn from a normal distribution with their current mean and deviation.
    """
    for part in module.modules():
        reset = getattr(part, "reset_parameters", None) or getattr(part, "_reset_parameters", None)
        if callable(reset):
            reset()
            continue
        for parameter in part.parameters(recurse=False):
            parameter.normal_(parameter.mean().item(), parameter.std(unbiased=False).item())


def descend(
    module: nn.Module,
    samples: int,
    loss: Callable[[Tensor], Tensor],
    measure: Callable[[Tensor], float],
    settings: Descent,
    *,
    generator: torch.Generator,
    training_mode: bool = False,
    smallest_batch: int = 1,
    monitor: Monitor | None = None,
) -> list[dict[str, Any]]:
    """Fit a module in place by AdamW and restore its best epoch on held-out samples; the start counts as epoch 0.

    Fits all parameters, including frozen ones, and always restores their `requires_grad`.

    Args:
        samples: number of samples, at least 2.
        loss: sample numbers (n,) int64 on the module's device -> mean loss.
        measure: the same as a float, without gradients, for any number of samples.
        settings: at least one sample is held out, and at least one is fitted.
        generator: chooses the held-out samples, and the order of the others in every epoch.
        training_mode: take steps in training mode and measure in evaluation mode, which the module is left in;
            otherwise its mode does not change.
        smallest_batch: merge a smaller last batch into the one before it.
        monitor: gets an event "epoch" after each epoch, and may cancel before each step.
    Returns:
        One dict per epoch: epoch, loss (over the epoch's steps), validation. Epoch 0 is the start.
    Raises:
        Cancelled: on the monitor's request, between two steps.
    """
    monitor, device = monitor or Monitor(), devices.of(module)
    order = torch.randperm(samples, generator=generator).to(device)
    count = min(samples - 1, max(1, round(settings.validation * samples)))
    held_out, fitted = order[:count], order[count:]

    def measured(numbers: Tensor) -> float:
        if training_mode:
            module.eval()
        with torch.no_grad():
            return measure(numbers)

    def shuffled() -> Iterator[tuple[Tensor]]:
        order = fitted[torch.randperm(len(fitted), generator=generator).to(device)]
        for batch in batches(order, settings.batch_size, smallest_batch):
            monitor.check()
            yield (batch,)

    with _all_parameters_free(module), torch.enable_grad():
        on_gpu = device.type == "cuda"
        optimiser = torch.optim.AdamW(
            module.parameters(),
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=on_gpu,
            capturable=on_gpu,
        )
        step = stepping(loss, optimiser)
        best = Best(module)
        start = measured(held_out)
        best.offer(0, -start)
        curve = [{"epoch": 0, "loss": measured(fitted), "validation": start}]
        for epoch in range(1, settings.epochs + 1):
            if training_mode:
                module.train()
            error = one_epoch(shuffled(), step)
            numbers = {"loss": error, "validation": measured(held_out)}
            curve.append({"epoch": epoch, **numbers})
            monitor.emit("epoch", index=epoch, total=settings.epochs, **numbers)
            best.offer(epoch, -numbers["validation"])
            if settings.patience is not None and best.epoch != epoch and epoch - best.epoch >= settings.patience:
                break
        best.restore()
    return curve


def batches(order: Tensor, size: int, smallest: int = 1) -> list[Tensor]:
    """Split sample numbers (n,) into batches, merging a last one below `smallest` into the one before."""
    parts = list(order.split(size))
    if len(parts) > 1 and len(parts[-1]) < smallest:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts


@contextmanager
def _all_parameters_free(module: nn.Module) -> Iterator[None]:
    """Let every parameter require gradients; afterwards, clear gradients and restore the flags."""
    flags = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    try:
        for parameter, _ in flags:
            parameter.requires_grad_(True)
        yield
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)
            parameter.grad = None
