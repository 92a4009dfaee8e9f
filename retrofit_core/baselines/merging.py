"""Merges of networks that share their initialisation or an ancestor: SLERP and arithmetic of task vectors. No alignment.

Legend: theta_k all parameters of parent k as one vector, theta_0 the common ancestor's, tau_k = theta_k - theta_0 a task vector.
Floating-point buffers (BatchNorm's statistics) are the parents' means, as in `averaging`.

Libraries that do this are made for language models (mergekit, PEFT), with transformers behind them; the formulas are a few lines.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from ..fusion.eligibility import check_weights
from ..fusion.results import FusionResult
from ..fusion.task import Algorithm, Takes, Task
from ..networks.levels.weights import refuse_computed_weights
from ..system.device import on_device
from ..system.refusals import Refusal
from ..system.settings import FRACTION, Range, setting
from .averaging import CombiningPlan, average, check_mergeable, outcome

#: Two vectors whose cosine is nearer to one or minus one lie on a line, as far as float64 can tell; there SLERP is linear.
ON_A_LINE = 1e-12


@dataclass(frozen=True)
class Slerp(Algorithm):
    """Two parents' weights along the great circle between them, which keeps their norm (Shoemake 1985).

    theta = sin((1 - t) w) / sin w theta_1 + sin(t w) / sin w theta_2, with w the angle between the two; the straight line where
    they point the same way or apart. Buffers go along the straight line. At t = 0 it is parent 0, at t = 1 parent 1.
    """

    takes: ClassVar[Takes] = Takes(parents=(2, 2), equal_widths=True, any_architecture=True, uses_data=False)

    t: float = setting(0.5, "where between parent 0 (0) and parent 1 (1)", FRACTION, title="Place between A and B")
    angle: Literal["whole", "tensor"] = setting(
        "whole", "angle between all weights as one vector (whole), or of each tensor", title="Angle measured on"
    )

    def plan(self, task: Task) -> CombiningPlan:
        """Check number and shapes; see `Algorithm`."""
        if len(task.parents) != 2:
            raise Refusal(
                f"SLERP goes between exactly two parents. Found {len(task.parents)}. Use Average.",
                ("method", "Average"),
            )
        check_mergeable(task, "SLERP")
        return CombiningPlan(task)

    @torch.no_grad()
    def run(self, plan: CombiningPlan) -> FusionResult:
        """The point on the great circle."""
        start, task = time.perf_counter(), plan.task
        task.runtime.monitor.check()  # once, for the merge takes no time
        fused = average(task.parents, [1 - self.t, self.t]).to(task.device).eval()
        first, second = (dict(on_device(parent, task.device).named_parameters()) for parent in task.parents)
        if self.angle == "whole":
            write(fused, slerp(as_vector(first, fused), as_vector(second, fused), self.t))
        else:
            for name, tensor in fused.named_parameters():
                point = slerp(first[name].double().flatten(), second[name].double().flatten(), self.t)
                tensor.copy_(point.view_as(tensor))
        return outcome("SLERP", self, fused, task, start, seed=task.seed)


def slerp(first: Tensor, second: Tensor, t: float) -> Tensor:
    """(p,) the point at t between two vectors, on the great circle."""
    cosine = (first @ second) / (first.norm() * second.norm()).clamp_min(1e-300)
    if 1 - cosine.abs() < ON_A_LINE:
        return (1 - t) * first + t * second
    angle = torch.arccos(cosine)
    sine = angle.sin()
    return ((1 - t) * angle).sin() / sine * first + (t * angle).sin() / sine * second


@dataclass(frozen=True)
class TaskVectors(Algorithm):
    """Base of the methods that add what the parents learned to their common ancestor."""

    takes: ClassVar[Takes] = Takes(equal_widths=True, any_architecture=True, base=True, uses_data=False)
    title: ClassVar[str] = ""

    def plan(self, task: Task) -> CombiningPlan:
        """Check shapes and the ancestor; see `Algorithm`."""
        if task.base is None:
            raise ValueError(
                f"{self.title} adds what each parent has learned to their common ancestor, which is missing. Pass "
                "base=NETWORK (--base FILE), or use Average."
            )
        check_mergeable(task, self.title)
        check_weights(task.base, "the common ancestor")
        refuse_computed_weights(task.base, "the common ancestor")
        for name, tensor in task.parents[0].state_dict().items():
            of_base = task.base.state_dict().get(name)
            if of_base is None or of_base.shape != tensor.shape:
                words = "is missing there" if of_base is None else f"has the shape {tuple(of_base.shape)} there"
                raise ValueError(
                    f"the common ancestor (base) is none of these parents: {name!r} {words}, and {tuple(tensor.shape)} in "
                    "them. Name the network from which they were trained on."
                )
        return CombiningPlan(task)

    @torch.no_grad()
    def run(self, plan: CombiningPlan) -> FusionResult:
        """The ancestor, and what is made of the task vectors."""
        start, task = time.perf_counter(), plan.task
        assert task.base is not None
        task.runtime.monitor.check()  # once, for the merge takes no time
        fused = average(task.parents).to(task.device).eval()
        base = as_vector(dict(on_device(task.base, task.device).named_parameters()), fused)
        parents = [dict(on_device(parent, task.device).named_parameters()) for parent in task.parents]
        vectors = torch.stack([as_vector(parent, fused) - base for parent in parents])
        write(fused, base + self.combined(vectors, torch.Generator().manual_seed(task.seed)))
        return outcome(self.title, self, fused, task, start, seed=task.seed)

    def combined(self, vectors: Tensor, generator: torch.Generator) -> Tensor:
        """(p,) what is added to the ancestor.

        Args:
            vectors: (n, p) task vectors, float64.
            generator: the source of randomness, on the CPU.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class TaskArithmetic(TaskVectors):
    """theta_0 + scale sum_k tau_k (Ilharco et al. 2023, learning via addition). Nothing is random.

    At a scale of one over the number of parents it is their mean; a negative one forgets what they learned. 0.4 is what Yadav et
    al. 2023 take where no validation data choose it.
    """

    title: ClassVar[str] = "Task arithmetic"

    scale: float = setting(
        0.4,
        "factor of the sum of the task vectors; 1/n gives the mean",
        Range(-10, 10),
        title="Strength of what is added",
    )

    def combined(self, vectors: Tensor, generator: torch.Generator) -> Tensor:
        """See `TaskVectors`."""
        return self.scale * vectors.sum(0)


@dataclass(frozen=True)
class Ties(TaskVectors):
    """Trim, elect signs, merge (Yadav et al. 2023, Algorithm 1). Nothing is random.

    Of each task vector the entries of greatest size stay, the others are 0. Of each parameter the sign of greater total size is
    elected, and the mean of the entries with that sign, zeros left out, is added to the ancestor, times `scale`. Entries as large
    as the smallest that stays stay too.
    """

    title: ClassVar[str] = "TIES"

    density: float = setting(
        0.2,
        "share of each task vector's entries that stay",
        Range(0, 1, without_low=True),
        title="Share of entries kept",
    )
    scale: float = setting(1.0, "factor of what is added", Range(-10, 10), title="Strength of what is added")

    def combined(self, vectors: Tensor, generator: torch.Generator) -> Tensor:
        """See `TaskVectors`."""
        return self.scale * disjoint_mean(trimmed(vectors, self.density))


@dataclass(frozen=True)
class Dare(TaskVectors):
    """Drop entries of each task vector at random and rescale the others (Yu et al. 2024), then add them up.

    Each entry is 0 with probability `drop`, else divided by 1 - `drop`, so that its expectation stays; then task arithmetic, or
    with `elect` TIES's signs and means. The seed decides which entries are dropped.
    """

    title: ClassVar[str] = "DARE"

    drop: float = setting(
        0.9,
        "probability with which an entry is dropped",
        Range(0, 1, without_high=True),
        title="Share of entries dropped",
    )
    elect: bool = setting(
        False, "signs elected and means taken as in TIES, in place of the sum", title="Elect signs as in TIES"
    )
    scale: float = setting(0.4, "factor of what is added", Range(-10, 10), title="Strength of what is added")

    def combined(self, vectors: Tensor, generator: torch.Generator) -> Tensor:
        """See `TaskVectors`."""
        remaining = rescaled(vectors, self.drop, generator)
        return self.scale * (disjoint_mean(remaining) if self.elect else remaining.sum(0))


def trimmed(vectors: Tensor, density: float) -> Tensor:
    """(n, p) each vector with its largest entries alone: a share `density` of them, at least one."""
    count = max(1, round(density * vectors.shape[1]))
    sizes = vectors.abs()
    least = sizes.kthvalue(vectors.shape[1] - count + 1, dim=1, keepdim=True).values
    return torch.where(sizes >= least, vectors, 0)


def disjoint_mean(vectors: Tensor) -> Tensor:
    """(p,) the mean of the entries whose sign is that of their sum; 0 where the sum is."""
    agrees = vectors.sign() * vectors.sum(0).sign() > 0
    return (vectors * agrees).sum(0) / agrees.sum(0).clamp_min(1)


def rescaled(vectors: Tensor, drop: float, generator: torch.Generator) -> Tensor:
    """(n, p) entries dropped at random, the others divided by the share that stays."""
    stays = torch.rand(vectors.shape, generator=generator) >= drop
    return vectors * stays.to(vectors.device) / (1 - drop)


def as_vector(parameters: Mapping[str, Tensor], like: nn.Module) -> Tensor:
    """(p,) float64 parameters in the order of a network's."""
    return torch.cat([parameters[name].detach().double().flatten() for name, _ in like.named_parameters()])


def write(model: nn.Module, vector: Tensor) -> None:
    """Fill a network's parameters from a vector."""
    parameters: Sequence[Tensor] = list(model.parameters())
    for tensor, part in zip(parameters, vector.split([tensor.numel() for tensor in parameters]), strict=True):
        tensor.copy_(part.view_as(tensor))
