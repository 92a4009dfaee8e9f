"""Fisher-weighted averaging: each parameter's mean, weighted by how much the parents' outputs depend on it (Matena and Raffel
2022). No alignment.

Legend: F_k (p,) the diagonal of parent k's Fisher information, E_x E_{y ~ p(y|x)} (d log p(y|x) / d theta)^2.
"""

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from ..fusion.results import FusionResult
from ..fusion.task import Algorithm, Cost, Takes, Task
from ..networks.outputs import check_class_scores
from ..system.device import of
from ..system.monitor import Monitor
from ..system.settings import Range, setting
from .averaging import CombiningPlan, average, check_mergeable, outcome


@dataclass(frozen=True)
class FisherAveraging(Algorithm):
    """theta = sum_k F_k theta_k / sum_k F_k for every parameter, with F_k on parent k's own data if given.

    The expectation over classes is exact, or uses one class per sample, drawn from the parent's own probabilities with the
    seed. Parents count equally. Buffers (BatchNorm's statistics) are averaged.
    """

    takes: ClassVar[Takes] = Takes(equal_widths=True, any_architecture=True, parents_data=True)

    expectation: Literal["exact", "sampled"] = setting(
        "exact",
        "expectation over the classes: exact, or sampled (one class for each sample, which is faster)",
        title="Expectation over classes",
    )
    floor: float = setting(
        1e-6,
        "added to the Fisher information, so that what no parent's answers depend on is averaged",
        Range(0, without_low=True),
        title="Least Fisher information",
    )

    def plan(self, task: Task) -> CombiningPlan:
        """Check shapes and data; see `Algorithm`."""
        shape = check_mergeable(task, "Fisher averaging")
        check_class_scores(shape, "Fisher averaging", "Use Average.", ("method", "Average"))
        # Backward passes, one per sample or per sample and class, are not counted.
        return CombiningPlan(task, Cost(passes=max(len(inputs) for inputs, _ in task.parents_data()), complete=False))

    def run(self, plan: CombiningPlan) -> FusionResult:
        """Compute every parent's Fisher information, then the means."""
        start, task = time.perf_counter(), plan.task
        monitor, generator = task.runtime.monitor, torch.Generator().manual_seed(task.seed)
        fused = average(task.parents).to(task.device).eval()
        drawing = generator if self.expectation == "sampled" else None
        data = [inputs.to(task.inputs.dtype) for inputs, _ in task.parents_data()]
        fishers = []
        for index, (parent, inputs) in enumerate(zip(task.parents, data, strict=True)):
            monitor.emit("phase", name=f"Fisher information of parent {index}")
            network = copy.deepcopy(parent).to(task.device).eval()
            fishers.append(fisher_diagonal(network, inputs, generator=drawing, monitor=monitor))
        parameters = [dict(parent.named_parameters()) for parent in task.parents]
        with torch.no_grad():
            for name, tensor in fused.named_parameters():
                tensors = [each[name].to(task.device).double() for each in parameters]
                tensor.copy_(weighted_mean(tensors, [fisher[name] + self.floor for fisher in fishers]))
        return outcome("Fisher", self, fused, task, start, samples=list(map(len, data)), seed=task.seed)


def weighted_mean(tensors: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """The elementwise weighted mean of tensors."""
    return torch.stack([tensor * weight for tensor, weight in zip(tensors, weights, strict=True)]).sum(0) / sum(weights)


def fisher_diagonal(
    model: nn.Module, inputs: Tensor, *, generator: torch.Generator | None = None, monitor: Monitor | None = None
) -> Mapping[str, Tensor]:
    """Parameter -> diagonal of the Fisher information, float64, as the mean over samples.

    Args:
        model: in evaluation mode; all its parameters get gradients.
        inputs: (B, ...) samples; each runs alone.
        generator: draws one class per sample; None: expectation over all classes.
    """
    named = dict(model.named_parameters())
    for parameter in named.values():
        parameter.requires_grad_(True)
    totals = {name: torch.zeros_like(parameter, dtype=torch.float64) for name, parameter in named.items()}
    first = next(iter(named.values()))
    with torch.enable_grad():
        for x in (monitor or Monitor()).each("step", list(inputs.split(1)), name="Fisher information"):
            logs = model(x.to(of(model), first.dtype)).log_softmax(1)[0]
            shares = logs.detach().double().exp()
            if generator is None:
                drawn = range(len(logs))
            else:
                drawn, shares = [int(torch.multinomial(shares.cpu(), 1, generator=generator))], torch.ones_like(shares)
            for label in drawn:
                gradients = torch.autograd.grad(logs[label], list(named.values()), retain_graph=True, allow_unused=True)
                for total, gradient in zip(totals.values(), gradients, strict=True):
                    if gradient is not None:  # unused parameters have none
                        total += shares[label] * gradient.double().square()
    return {name: total / len(inputs) for name, total in totals.items()}
