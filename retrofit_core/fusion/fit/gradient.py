"""The gradient fit for any differentiable level (paper sec. 4.2.2 b and App. F.1)."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ...networks.levels import Level, Tied, is_branched, rows
from ...system.duplicates import duplicate
from ...system.graphs import replayed
from ...system.monitor import Monitor
from ...system.settings import FRACTION, setting
from ...training.descent import Descent, descend, renew
from ..grouping import Grouping
from ..joint_spaces import Levels
from ..mapping import parents_weights
from ..moments import Moments, Rows, Solution
from ..results import Fitted
from ..walk import Step
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
    """Gradient descent (AdamW) on the squared distance to the targets; for levels of any kind.

    It starts at parent 0's weights, or at the mapped mean of the parents' where shapes differ.
    """

    least_samples: ClassVar[int] = 10
    levels: ClassVar[str] = "blocks"

    perturbation: float = setting(
        0.0, "0: start from parent 0's weights; 1: start from random weights", FRACTION, title="Fresh start"
    )
    weighted_loss: bool = setting(
        False, "weight each neuron's error by its importance", title="Weight errors by importance"
    )

    def check(self, levels: Levels, example: Tensor) -> None:
        """Check that levels end where a single tensor is alive and share no weights."""
        if is_branched(levels.fused) or levels.fused[-1].tail:
            raise ValueError(
                "a gradient fit needs levels that end where one tensor is alive. Use boundaries='blocks', or "
                "fit='ridge' (HF-Linear, KF-Linear)."
            )
        for level in levels.fused:
            if isinstance(level.form, Tied):
                raise ValueError(
                    f"level {level.name!r} shares its weight with a table of embeddings, which a gradient fit of one "
                    "level would change in the other. Use boundaries=1, or fit='ridge' (HF-Linear, KF-Linear)."
                )

    def descend(
        self,
        level: Level,
        inputs: Tensor,
        targets: Tensor,
        *,
        generator: torch.Generator,
        weights: Tensor | None = None,
        monitor: Monitor | None = None,
    ) -> list[dict[str, Any]]:
        """Fit a level from its current weights, in evaluation mode (no dropout).

        Plain MSE unless there are weights: near-zero scores would starve those neurons of gradient and spoil later levels
        (App. B.2). The best epoch on the held-out samples is restored, including the start (epoch 0). With a perturbation
        epsilon, the start is (1 - epsilon) x the current weights + epsilon x freshly initialised ones.

        Args:
            inputs: (B, ...) boundary tensors of the fused network.
            targets: (B, positions, d).
            weights: (d,) weights of the neurons' errors; only ratios matter.
        Returns:
            One dict per epoch: epoch, loss (training), validation; epoch 0 is the start.
        """
        module, axis = level.module, level.axis
        if self.perturbation:
            perturb(module, self.perturbation, generator)
        scale = torch.ones(targets.shape[2]) if weights is None else weights * len(weights) / weights.sum()
        scale = scale.to(targets)

        def loss(samples: Tensor) -> Tensor:
            outputs = rows(module(inputs[samples]), axis).reshape(len(samples), -1, targets.shape[2])
            return ((outputs - targets[samples]).square() * scale).mean()

        mean = replayed(loss, inputs.device)

        def measure(samples: Tensor) -> float:
            parts = samples.split(max(self.batch_size, 64))
            return sum(mean(part).item() * len(part) for part in parts) / len(samples)

        return descend(module, len(inputs), loss, measure, self, generator=generator, monitor=monitor)

    def fit(self, step: Step, sums: Moments | Rows, solution: Solution, groups: Grouping, s: Tensor) -> Fitted:
        """Train the level's weights, starting at the parents'."""
        level, walk, targets = step.level, step.walk, groups.targets(s)
        weights = targets.totals if self.weighted_loss else None
        _start_at_parents(step, targets.A)
        x, T = inputs_and_targets(step, targets.A)
        with walk.stopwatch.phase("fit"):
            curve = self.descend(level, x, T, generator=step.generator, weights=weights, monitor=walk.monitor)
        with walk.stopwatch.phase("report"):
            error = torch.zeros_like(targets.totals)
            for h, t in zip(x.split(walk.batch), T.split(walk.batch), strict=True):
                error += (rows(level.module(h), level.axis) - t.flatten(0, 1)).double().square().sum(0)
        missed = (targets.totals @ error).item()
        return Fitted("gradient", missed, curve=curve)


def inputs_and_targets(step: Step, A: Tensor) -> tuple[Tensor, Tensor]:
    """The fused boundary tensors (B, ...) and the targets z A as (B, positions, d)."""
    inputs, targets = [], []
    for h, outputs in step.walk.batches(step.index):
        with step.walk.stopwatch.phase("fit"):
            z = step.side_by_side(outputs)
            assert isinstance(h, Tensor)
            inputs.append(h.contiguous())
            targets.append((z @ A.to(z.dtype)).reshape(len(h), -1, A.shape[1]))
    return torch.cat(inputs), torch.cat(targets)


@torch.no_grad()
def _start_at_parents(step: Step, A: Tensor) -> None:
    """Start at parent 0's weights (p, d), or at the mapped mean of the parents' where shapes differ.

    In levels of several layers, or if the parents' weights cannot be mapped, tensors start at parent 0's of the same name and
    shape; the others keep the target's values.
    """
    level = step.level
    carried = {entry.name for entry in level.carried}
    tensors = {name: tensor for name, tensor in level.state().items() if name not in carried}
    first = {name: tensor for parent in step.walk.parents[0] for name, tensor in parent.state().items()}
    shared = {name: first[name] for name in tensors if name in first and first[name].shape == tensors[name].shape}
    affine = level.affine is not None and all(parent.affine is not None for parent in step.parents)
    if len(shared) < len(tensors) and affine:
        # An input may not be a single neuron of the parents, as after a flatten in another order.
        with suppress(ValueError):
            level.write(parents_weights(step) @ A)
            return
    for name, value in shared.items():
        tensors[name].copy_(value)
