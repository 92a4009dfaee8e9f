"""Retrofitting followed by distillation of the parents' mean prediction; ours, not the paper's."""

import time
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..data.augment import crop, usual_padding
from ..fusion.algorithm import FusionPlan, Retrofit
from ..fusion.eligibility import check_outputs
from ..fusion.results import FusionResult
from ..fusion.task import Cost, Task
from ..networks.outputs import check_class_scores
from ..system.settings import COUNT, Range, setting
from ..training.descent import Descent
from .distillation import fit_to_goals, kl, logits_of

#: Padding mode for moved copies of images.
EDGE = "replicate"


@dataclass(frozen=True, eq=False, repr=False)
class DistilledPlan(FusionPlan):
    """A fusion and the training after it."""

    settings: "Distilled" = field(kw_only=True)

    def cost(self) -> Cost:
        """The fusion's cost, one pass of the teachers over all copies, and the epochs."""
        fusion, descent = super().cost(), self.settings.descent
        samples = self.settings.samples(self.task)
        return replace(
            fusion,
            passes=fusion.passes + samples,
            trained="network",
            epochs=descent.epochs_range,
            samples=samples,
            batch=descent.batch_size,
        )


@dataclass(frozen=True)
class Distilled(Retrofit):
    """Algorithm 1, then distillation from the fused network: all levels together, towards the parents' mean prediction.

    A student with random weights learns little from a few hundred samples; one that starts at the fused network needs to
    learn little. No labels are used. The loss is KL(teachers || student) at a temperature, as in KD. The best epoch on
    held-out samples is restored; the fusion itself counts as one. Each copy of the fusion samples moves images by a few
    pixels. Level reports describe the fusion before this training.
    """

    distil_epochs: int = setting(
        3, "passes over the fusion samples and their copies", COUNT, title="Epochs of distillation"
    )
    distil_rate: float = setting(
        1e-4,
        "learning rate of AdamW after the fusion",
        Range(0, without_low=True),
        title="Learning rate of distillation",
    )
    distil_temperature: float = setting(
        2.0,
        "divisor of the logits; a higher one gives small probabilities more weight",
        Range(0.001, 10_000),
        title="Temperature of distillation",
    )
    copies: int = setting(
        7, "shifted copies of each fusion sample, if samples are images", COUNT, title="Shifted copies per sample"
    )

    @property
    def descent(self) -> Descent:
        """Settings for training the whole network."""
        return Descent(learning_rate=self.distil_rate, epochs=self.distil_epochs, patience=None)

    def samples(self, task: Task) -> int:
        """Number of training samples."""
        return len(task.inputs) * (1 + self.copies if task.inputs.dim() == 4 else 1)

    def plan(self, task: Task) -> DistilledPlan:
        """As `Retrofit.plan`; see `Algorithm`."""
        fusion = super().plan(task)
        check_class_scores(
            check_outputs(task.parents, task.inputs), "KF-Linear-KD", "Use KF-Linear.", ("method", "KF-Linear")
        )
        return DistilledPlan(fusion.task, fusion.levels, centred=self.centre, settings=self)

    def run(self, plan: FusionPlan) -> FusionResult:
        """Fuse, ask the teachers, train."""
        plan = self.centred(plan)
        fused, begin = super().run(plan), time.perf_counter()
        config = {**fused.config, "curve": self.train(fused.model, plan.task)}
        return replace(fused, config=config, seconds=fused.seconds + time.perf_counter() - begin)

    def train(self, student: nn.Module, task: Task) -> list[dict[str, Any]]:
        """Train a fused network, in place, towards the parents' mean prediction on the task's samples and copies of them.

        Returns:
            The curve of `descend`.
        """
        monitor, device = task.runtime.monitor, task.device
        inputs = moved(task.inputs.to(device, task.dtype), self.copies, task.seed)
        logits = logits_of(task.parents, inputs, device, monitor)  # (n, B, classes)
        goals = (logits / self.distil_temperature).softmax(2).mean(0)
        monitor.emit("phase", name="distillation")
        return fit_to_goals(
            student,
            inputs,
            goals,
            lambda z, p: kl(z, p, self.distil_temperature),
            self.descent,
            seed=task.seed,
            monitor=monitor,
        )


def moved(inputs: Tensor, copies: int, seed: int) -> Tensor:
    """Images (B, C, H, W) followed by copies, each shifted by its own few pixels; other inputs get no copies.

    Args:
        copies: per image.
    """
    if inputs.dim() != 4 or not copies:
        return inputs
    generator = torch.Generator().manual_seed(seed)
    channels, height, width = inputs.shape[1:]
    padding = usual_padding((channels, height, width))
    return torch.cat([inputs, *(crop(inputs, padding, generator, EDGE) for _ in range(copies))])
