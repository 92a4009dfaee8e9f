"""Merge networks with a common ancestor: task-vector arithmetic. No alignment.

Legend: theta_k all parameters of parent k as one vector, theta_0 the common ancestor's, tau_k = theta_k - theta_0 a task vector.
Floating-point buffers (BatchNorm's statistics) are the parents' means, as in `averaging`.

Existing libraries (mergekit, PEFT) target language models and depend on transformers; the formulas take a few lines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from ..fusion.results import FusionResult
from ..fusion.task import Plan, Takes, Task
from ..networks.code import check_same_code
from ..networks.statedicts import tensors_in
from ..networks.weights import refuse_computed_weights
from ..system.device import on_device
from ..system.settings import Range, setting
from .averaging import WeightAverager, average

#: Factors for task vectors.
SCALES = Range(-10, 10)


@dataclass(frozen=True)
class TaskVectors(WeightAverager):
    """theta_0 + scale sum_k tau_k, with parts of the task vectors dropped, trimmed, or in conflict left out.

    - Task-Arithmetic (Ilharco et al. 2023, learning via addition): neither; at its default scale it is Average. Another one can
      be better for given networks, so choose it on held-out data; a negative scale forgets what they learned. Without such data,
      Yadav et al. 2023 use 0.4, which loses 0.7 points to Average on 24 ancestors (docs/measurements.md).
    - TIES (Yadav et al. 2023, Algorithm 1): trims to the entries of largest magnitude, ties included, elects for each parameter
      the sign of the larger total, and adds the mean of the nonzero entries with it. On these ancestors it loses 0.8 points to
      Average, and 2.3 at the published density 0.2 and scale 1.
    - DARE (Yu et al. 2024): sets entries to 0 with probability `drop` and divides the others by 1 - `drop`, which keeps their
      expectation. -0.2 points to Average, and -4.8 at drop 0.9 and scale 0.4, as published. With `elect` and drop 0 it is
      TIES, and has its scale; where entries drop, 1 / n is 0.8 points ahead of 0.75 (24 sets of CNNs). The seed decides;
      nothing else is random.
    """

    takes: ClassVar[Takes] = Takes(equal_widths=True, any_architecture=True, base=True, uses_data=False)
    title: ClassVar[str] = "Task vectors"

    drop: float = setting(
        0.1,
        "probability of dropping an entry",
        Range(0, 1, without_high=True),
        title="Share of entries dropped",
    )
    density: float = setting(
        1.0,
        "share of each task vector's entries to keep",
        Range(0, 1, without_low=True),
        title="Share of entries kept",
    )
    elect: bool = setting(
        False, "elect signs and take means as in TIES, instead of the sum", title="Elect signs as in TIES"
    )
    scale: float | Literal["auto"] = setting(
        "auto",
        "factor for what is added; auto: one over the number of parents, which makes the sum a mean, and 0.75 for TIES",
        SCALES,
        title="Strength of the addition",
    )

    def plan(self, task: Task) -> Plan:
        """Check shapes and the ancestor; see `Algorithm`."""
        if task.base is None:
            raise ValueError(
                "task vectors are what each parent has learned beyond their common ancestor, which is missing. Pass "
                "base=NETWORK (--base FILE), or use Average."
            )
        self.check_mergeable(task, least=0)
        refuse_computed_weights(task.base, "the common ancestor")
        tensors = tensors_in(task.base)
        for name, tensor in tensors_in(task.parents[0]).items():
            of_base = tensors.get(name)
            if of_base is None or of_base.shape != tensor.shape:
                words = "is missing there" if of_base is None else f"has the shape {tuple(of_base.shape)} there"
                raise ValueError(
                    f"the common ancestor (base) is none of these parents: {name!r} {words}, and "
                    f"{tuple(tensor.shape)} in them. Name the network that their training started from."
                )
        check_same_code([task.parents[0], task.base], task.inputs, ["parent 0", "the common ancestor"])
        return Plan(task)

    @torch.no_grad()
    def run(self, plan: Plan) -> FusionResult:
        """Add the combined task vectors to the ancestor."""
        task = plan.task
        assert task.base is not None
        task.runtime.monitor.check()  # once: the merge takes no time
        fused = average(task.parents).to(task.device).eval()
        base = as_vector(dict(on_device(task.base, task.device).named_parameters()), fused)
        parents = [dict(on_device(parent, task.device).named_parameters()) for parent in task.parents]
        vectors = torch.stack([as_vector(parent, fused) - base for parent in parents])
        write(fused, base + self.combined(vectors, torch.Generator().manual_seed(task.seed)))
        return self.result(fused, task, seed=task.seed)

    def combined(self, vectors: Tensor, generator: torch.Generator) -> Tensor:
        """(p,) vector to add to the ancestor.

        Args:
            vectors: (n, p) task vectors, float64.
            generator: on the CPU.
        """
        scale = self.scale
        if scale == "auto":
            scale = 0.75 if self.elect and not self.drop else 1 / len(vectors)
        vectors = rescaled(vectors, self.drop, generator) if self.drop else vectors
        vectors = trimmed(vectors, self.density) if self.density < 1 else vectors
        return scale * (disjoint_mean(vectors) if self.elect else vectors.sum(0))


def trimmed(vectors: Tensor, density: float) -> Tensor:
    """(n, p) vectors with only their largest entries: a share `density`, at least one."""
    count = max(1, round(density * vectors.shape[1]))
    sizes = vectors.abs()
    least = sizes.kthvalue(vectors.shape[1] - count + 1, dim=1, keepdim=True).values
    return torch.where(sizes >= least, vectors, 0)


def disjoint_mean(vectors: Tensor) -> Tensor:
    """(p,) mean of the entries with the sign of their sum; 0 where the sum is 0."""
    agrees = vectors.sign() * vectors.sum(0).sign() > 0
    return (vectors * agrees).sum(0) / agrees.sum(0).clamp_min(1)


def rescaled(vectors: Tensor, drop: float, generator: torch.Generator) -> Tensor:
    """(n, p) with entries dropped at random, the others divided by the share kept."""
    stays = torch.rand(vectors.shape, dtype=torch.float32, generator=generator) >= drop
    return vectors * stays.to(vectors.device) / (1 - drop)


def as_vector(parameters: Mapping[str, Tensor], like: nn.Module) -> Tensor:
    """(p,) float64 parameters in the order of a network's."""
    return torch.cat([parameters[name].detach().double().flatten() for name, _ in like.named_parameters()])


def write(model: nn.Module, vector: Tensor) -> None:
    """Fill a network's parameters from a vector."""
    parameters: Sequence[Tensor] = list(model.parameters())
    for tensor, part in zip(parameters, vector.split([tensor.numel() for tensor in parameters]), strict=True):
        tensor.copy_(part.view_as(tensor))
