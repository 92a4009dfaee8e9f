"""Combine parents without alignment: weight averages (McMahan et al. 2017) and ensembles."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ..fusion.eligibility import check_inputs, check_outputs
from ..fusion.results import FusionResult
from ..fusion.task import Algorithm, Plan, Takes, Task
from ..graph.graph import load, weights_of
from ..networks.code import check_same_code, check_same_settings, parent_names
from ..networks.composites import MEAN_OF_VALUES
from ..networks.inputs import count_of
from ..networks.norm_statistics import has_statistics
from ..networks.outputs import check_class_scores
from ..networks.statedicts import tensors_in
from ..networks.weights import refuse_computed_weights
from ..system import device as devices
from ..system.duplicates import duplicate
from ..system.settings import setting
from ..training.evaluation import ensemble
from .inputs import graph_of, leaves
from .repair import reset_norms


@torch.no_grad()
def average(models: Sequence[nn.Module], weights: Sequence[float] | None = None) -> nn.Module:
    """A new network with the mean of every parameter and buffer; integer buffers stay parent 0's.

    Args:
        weights: of the parents, normalised to sum to one; default: equal.
    Raises:
        ValueError: no models, different keys, shapes or settings of modules, computed weights (the mean of their parts is
            not their mean), or invalid `weights`.
    """
    check_can_be_averaged(models)
    fused = duplicate(models[0])
    states = [tensors_in(model) for model in models]
    shares = _shares(weights, len(models))
    for name, value in tensors_in(fused).items():
        if value.dtype.is_floating_point:
            together = torch.stack([state[name].to(value.device) for state in states])
            value.copy_(together.mean(0) if shares is None else torch.tensordot(shares.to(together), together, 1))
    return fused


def check_can_be_averaged(models: Sequence[nn.Module]) -> None:
    """Refuse networks whose tensors cannot be averaged one by one.

    Raises:
        ValueError: no models, different keys, shapes or settings of modules, or computed weights.
    """
    if not models:
        raise ValueError("there is nothing to average. Pass a list of at least one model.")
    for index, model in enumerate(models):
        refuse_computed_weights(model, f"parent {index}")
    states = [tensors_in(model) for model in models]
    for name in dict.fromkeys(name for state in states for name in state):  # also those that parent 0 lacks
        shapes = [tuple(state[name].shape) if name in state else None for state in states]
        if len(set(shapes)) > 1:
            raise ValueError(f"weights cannot be averaged: {name!r} has the shapes {shapes}. Use a KF method.")
    check_same_settings(models, parent_names(len(models)))


def _shares(weights: Sequence[float] | None, n: int) -> Tensor | None:
    """(n,) float64 weights that sum to one."""
    if weights is None:
        return None
    try:
        shares = torch.as_tensor(weights, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{n} parents need as many weights, all of them numbers. Found {weights!r:.80}.") from error
    if shares.shape != (n,) or not torch.isfinite(shares).all() or (shares < 0).any() or shares.sum() <= 0:
        raise ValueError(f"{n} parents need as many weights, none negative and not all zero. Found {shares.tolist()}.")
    return shares / shares.sum()


def _check_parents(task: Task, method: str, least: int) -> tuple[int, ...]:
    check_inputs(task.parents, task.inputs, target=None, least=least, method=method, written=())
    return check_outputs(task.parents, task.inputs) if count_of(task.inputs) else ()


@dataclass(frozen=True)
class WeightAverager(Algorithm):
    """Base of methods that average weights entry by entry, neuron i with neuron i, with their common option."""

    reset_norms: bool = setting(
        False,
        "estimate new running statistics for BatchNorm on the fusion data: the mean of networks' statistics is not that of "
        "their mean",
        title="Renew BatchNorm statistics",
    )

    def check_mergeable(self, task: Task, least: int = 1) -> tuple[int, ...]:
        """Refuse parents whose weights cannot be merged one by one.

        Args:
            least: minimum number of samples.
        Returns:
            The shape of their outputs per sample; () without samples.
        Raises:
            ValueError: as in `check_inputs`, `check_outputs`, `check_can_be_averaged` and `check_same_code`; or BatchNorm
                statistics are to be renewed, and there are no samples, or the network cannot be traced.
        """
        shape = _check_parents(task, self.title, least)
        check_can_be_averaged(task.parents)
        check_same_code(task.parents, task.inputs, parent_names(len(task.parents)))
        if self.reset_norms and not count_of(task.inputs):
            raise ValueError(
                "reset_norms estimates statistics on fusion data, and none are given. Pass data, or leave it out."
            )
        if self.reset_norms and has_statistics(task.parents[0]):
            graph_of(task, task.parents[0])
        return shape

    def renew_norms(self, fused: nn.Module, task: Task) -> dict[str, Any] | None:
        """Give a merged network's BatchNorms the statistics of the fusion data, on request; returns facts."""
        if not (self.reset_norms and has_statistics(fused)):
            return None
        weights, runtime = weights_of(fused), task.runtime
        facts = reset_norms(graph_of(task, fused), weights, leaves(task, task.inputs), runtime.monitor, runtime.memory)
        load(fused, weights)
        return facts

    def result(self, fused: nn.Module, task: Task, **facts: object) -> FusionResult:
        """The result, after `renew_norms`; see `Algorithm`."""
        renewed = self.renew_norms(fused, task)
        return super().result(fused, task, **facts, **({"repaired": renewed} if renewed else {}))


@dataclass(frozen=True)
class Averaging(WeightAverager):
    """Vanilla averaging: no alignment, no levels, nothing random."""

    takes: ClassVar[Takes] = Takes(equal_widths=True, any_architecture=True, uses_data=False)
    title: ClassVar[str] = "average"

    def plan(self, task: Task) -> Plan:
        """Check shapes; see `Algorithm`."""
        self.check_mergeable(task, least=0)
        return Plan(task)

    def run(self, plan: Plan) -> FusionResult:
        """The mean."""
        task = plan.task
        task.runtime.monitor.check()  # once: the mean takes no time
        return self.result(average(task.parents).to(task.device).eval(), task)


@dataclass(frozen=True)
class Ensembling(Algorithm):
    """`ensemble` as a method: all parents run side by side, as an upper reference for a single network."""

    takes: ClassVar[Takes] = Takes(other_depths=True, any_architecture=True, keeps_parents=True, uses_data=False)
    title: ClassVar[str] = "ensemble"

    combine: Literal["softmax", "logits"] = setting("softmax", "mean of the networks' softmax, or of their logits")

    def plan(self, task: Task) -> Plan:
        """Check outputs; see `Algorithm`."""
        shape = _check_parents(task, self.title, least=0)
        if count_of(task.inputs) and self.combine != "logits":
            check_class_scores(shape, f"an ensemble with combine={self.combine!r}", MEAN_OF_VALUES)
        return Plan(task)

    def run(self, plan: Plan) -> FusionResult:
        """The parents, side by side."""
        task = plan.task
        task.runtime.monitor.check()  # once: this takes no time
        # Parents of a task are copies; all go where the result shall lie.
        return self.result(ensemble(task.parents, self.combine).to(devices.of(task.parents[0])).eval(), task)
