"""Recompute BatchNorm statistics exactly from samples.

A fused network, whose BatchNorms are arbitrary after folding, gets the statistics of its inputs and keeps its function, so that
fine-tuning, which normalises by batch statistics, starts close to it.
"""

from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from ..system.monitor import Monitor
from .copies import evaluating, fed, watching
from .levels.kinds import BatchNorm, is_plain
from .weights import repeated

#: Batch size.
BATCH = 100
#: A neuron is dead if its deviation is below this share of its size, which is rounding.
DEAD = 1e-6

#: Number of rows; sum and sum of squares per channel, float64.
Sums = tuple[int, Tensor, Tensor]


@torch.no_grad()
def reset_statistics(
    model: nn.Module,
    inputs: Tensor,
    *,
    batch: int = BATCH,
    monitor: Monitor | None = None,
) -> dict[str, Any]:
    """Set each BatchNorm to the exact mean and (population) variance of its inputs over all samples and positions.

    Scale and shift compensate, so that the function in evaluation mode does not change. BatchNorms without scale and shift, or
    that share them, are skipped.

    Args:
        inputs: (B, ...) in the model's dtype, on any device.
        batch: batch size; affects rounding only.
    Returns:
        Facts: kind "reset", number of "layers" that were set, and of their "dead" neurons, which do not vary.
    """
    dead: list[Tensor] = []  # per layer that was set
    # The function stays, so the inputs of a BatchNorm do not depend on earlier ones: one pass serves all.
    norms = {name: module for name, module in model.named_modules() if _has_statistics(module)}
    shared = repeated(norms.values())  # a shared scale and shift cannot compensate for different statistics
    norms = {name: n for name, n in norms.items() if n.affine and not {id(n.weight), id(n.bias)} & shared}
    sums, read = dict[str, Sums](), dict[str, Tensor]()

    def add(name: str, x: Tensor, _: Tensor) -> None:
        if name not in read and not is_plain(norms[name], BatchNorm):
            read[name] = x[:2].clone()
        sums[name] = channel_sums(x, 1, sums.get(name))

    with evaluating(model), watching(norms, add):
        for x in inputs.split(batch) if norms else ():
            (monitor or Monitor()).check()
            model(fed(model, x))
    for name, of_norm in sums.items():
        norm, before = norms[name], tensors_of(norms[name])
        expected = norm(read[name].clone()) if name in read else None
        mean, variance = moments_of(of_norm)
        _write(norm, mean, variance)
        dead.append(is_dead(mean, variance).sum())
        if expected is not None and not torch.allclose(norm(read[name]), expected, 1e-3, 1e-4):
            for tensor, value in before:  # its class uses scale and shift in another way than BatchNorm
                tensor.copy_(value)
            dead.pop()
    return {"kind": "reset", "layers": len(dead), "dead": int(sum(dead))}


def tensors_of(norm: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """The tensors of a module, each with a copy."""
    return [(tensor, tensor.clone()) for tensor in (*norm.parameters(), *norm.buffers())]


def has_statistics(model: nn.Module) -> bool:
    """Whether a network normalises by statistics of its training data."""
    return any(_has_statistics(module) for module in model.modules())


def _has_statistics(module: nn.Module) -> TypeGuard[BatchNorm]:
    return isinstance(module, BatchNorm) and module.running_mean is not None


def _write(norm: BatchNorm, mean: Tensor, variance: Tensor) -> None:
    assert norm.running_mean is not None and norm.running_var is not None
    slope = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
    norm.bias.copy_(norm.bias.double() + slope * (mean - norm.running_mean.double()))
    norm.weight.copy_(slope * (variance + norm.eps).sqrt())
    norm.running_mean.copy_(mean)
    norm.running_var.copy_(variance)


def channel_sums(values: Tensor, axis: int, before: Sums | None = None) -> Sums:
    """Row count, sums and sums of squares for each channel along an axis, added to those before."""
    rows = values.movedim(axis, -1).flatten(0, -2).double()
    count, total, squares = before or (0, torch.zeros_like(rows[0]), torch.zeros_like(rows[0]))
    return count + len(rows), total + rows.sum(0), squares + rows.square().sum(0)


def moments_of(sums: Sums) -> tuple[Tensor, Tensor]:
    """Mean and variance of each channel, (channels,) float64 each."""
    count, total, squares = sums
    mean = total / count
    return mean, (squares / count - mean.square()).clamp_min(0)


def is_dead(mean: Tensor, variance: Tensor) -> Tensor:
    """(channels,) bool: channels whose variance is only rounding."""
    return variance.sqrt() <= DEAD * (mean.square() + variance).sqrt()
