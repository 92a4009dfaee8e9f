"""Greedy model soup: average parents as long as held-out accuracy does not fall (Wortsman et al. 2022, Recipe 1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..fusion.results import FusionResult
from ..fusion.task import Algorithm, Plan, Takes, Task
from ..networks.outputs import check_class_scores
from ..system.device import of, on_device
from ..system.labels import check_classes, class_labels
from ..system.monitor import Monitor
from .averaging import WeightAverager, average

BATCH = 256


@dataclass(frozen=True)
class GreedySoup(WeightAverager):
    """Adds parents to the mean in order of accuracy, unless that makes the mean worse.

    Accuracy is on the fusion data, which need labels and should be held out from all parents' training: on one parent's
    training data that parent would win and stay alone. A uniform soup is `Averaging`. Nothing is random.
    """

    takes: ClassVar[Takes] = Takes(equal_widths=True, any_architecture=True)
    title: ClassVar[str] = "Greedy soup"

    def plan(self, task: Task) -> Plan:
        """Check shapes and labels; see `Algorithm`."""
        classes = check_class_scores(self.check_mergeable(task), "a greedy soup", "Use Average.", ("method", "Average"))
        if task.labels is None:
            raise ValueError(
                "a greedy soup is chosen by accuracy on held-out data, but these data have no labels. Pass (inputs, "
                "labels), or use Average, which is the uniform soup."
            )
        check_classes(class_labels(task.labels, "a greedy soup"), classes, "a greedy soup")
        return Plan(task)

    @torch.no_grad()
    def run(self, plan: Plan) -> FusionResult:
        """Measure each parent, then try them in turn."""
        task = plan.task
        assert task.labels is not None
        monitor, inputs, labels = task.runtime.monitor, task.inputs, class_labels(task.labels, "a greedy soup")
        alone = [correct(on_device(parent, task.device), inputs, labels, monitor) for parent in task.parents]
        order = sorted(range(len(alone)), key=lambda k: -alone[k])  # stable: ties keep the parents' order
        chosen, best = [order[0]], alone[order[0]]
        fused = average([task.parents[order[0]]]).to(task.device).eval()
        for index in order[1:]:
            tried = average([task.parents[k] for k in sorted((*chosen, index))]).to(task.device).eval()
            self.renew_norms(tried, task)
            right = correct(tried, inputs, labels, monitor)
            if right >= best:
                chosen, best, fused = [*chosen, index], right, tried
        accuracies = [100 * count / len(labels) for count in alone]
        facts = {"parents": sorted(chosen), "accuracies": accuracies, "samples": len(labels)}
        return Algorithm.result(self, fused, task, **facts)  # means have new statistics, a parent its own


def correct(model: nn.Module, inputs: Tensor, labels: Tensor, monitor: Monitor) -> int:
    """Number of samples that a network classifies correctly."""
    dtype = next(model.parameters()).dtype
    batches: Sequence[Tensor] = inputs.split(BATCH)
    classes = [model(x.to(of(model), dtype)).argmax(1).cpu() for x in monitor.each("step", batches, name="accuracy")]
    return int((torch.cat(classes) == labels.cpu()).sum())
