"""Linear probing: parent 0's features, a new class head fitted to all parents' outputs (LP of Luenam et al.)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..fusion.eligibility import check_inputs, check_outputs
from ..fusion.results import FusionResult
from ..fusion.task import Algorithm, Plan, Takes, Task
from ..networks.copies import evaluating, fed, watching
from ..networks.hooks import hooks_of, refuse_changing_hooks
from ..networks.levels import rows
from ..networks.levels.kinds import is_plain
from ..networks.levels.weights import refuse_shared
from ..networks.wrappers import class_name
from ..system.duplicates import duplicate
from ..system.monitor import Monitor
from ..training.descent import Descent
from .distillation import BATCH, fit_to_goals, logits_of


@dataclass(frozen=True)
class LinearProbe(Descent, Algorithm):
    """Parent 0 with only its last linear layer retrained, on the parents' mean outputs.

    This is KF with every level skipped but the head. It minimises the squared error, by AdamW from parent 0's head with
    the settings of the gradient fits (paper, App. F.1). All other tensors are exactly parent 0's.

    Goals are the mean of logits, as in KF's head with uniform scores; earlier code of the authors regresses logits on the mean
    of the parents' softmax.
    """

    takes: ClassVar[Takes] = Takes(other_depths=True)
    title: ClassVar[str] = "LP"

    def plan(self, task: Task) -> Plan:
        """Check the classes and find the head; see `Algorithm`."""
        check_inputs(task.parents, task.inputs, target=None, least=2, method=self.title, written=task.parents[:1])
        check_outputs(task.parents, task.inputs)
        example = task.inputs[:2]
        _refuse_hooks(task.parents[0], example, "")
        head = head_of(task.parents[0], example)
        _refuse_hooks(task.parents[0], example, head)
        alone = "so the head cannot be trained alone. Use KF-Linear, or give each layer its own weights."
        refuse_shared(task.parents[0], head, "LP, parent 0", alone)
        return Plan(task)

    @torch.no_grad()
    def run(self, plan: Plan) -> FusionResult:
        """Run the parents, then fit the head."""
        task = plan.task
        monitor, device = task.runtime.monitor, task.device
        fused = duplicate(task.parents[0]).to(device).eval()
        inputs = task.inputs.to(device, task.dtype)
        name = head_of(fused, task.inputs[:2])
        head = fused.get_submodule(name)
        assert isinstance(head, nn.Linear)
        logits = logits_of(task.parents, inputs, device, monitor)
        goals = rows(logits.mean(0), -1)
        x = features(fused, head, inputs, monitor)
        monitor.emit("phase", name="fit", level=name)
        curve = fit_to_goals(head, x, goals, F.mse_loss, self, seed=task.seed, monitor=monitor)
        training = {"optimiser": "AdamW", "epochs_run": len(curve) - 1, "curve": curve}
        return self.result(fused, task, head=name, samples=len(inputs), seed=task.seed, **training)


def head_of(model: nn.Module, example: Tensor) -> str:
    """The name of the linear layer whose output is the model's.

    Args:
        example: (B, ...) samples to run.
    Raises:
        ValueError: there is none.
    """
    layer_outputs: dict[str, Tensor] = {}
    layers = {name: module for name, module in model.named_modules() if is_plain(module, nn.Linear)}
    note = watching(layers, lambda name, _, output: layer_outputs.__setitem__(name, output.clone()))
    with torch.no_grad(), evaluating(model), note:
        outputs = model(fed(model, example))
    for name in reversed(layer_outputs):
        if layer_outputs[name].shape == outputs.shape and torch.equal(layer_outputs[name], outputs):
            return name
    raise ValueError(
        f"the outputs of {class_name(model)} do not come from one of its nn.Linear layers, so there is no head to "
        "train alone. Use KF-Gradient."
    )


def _refuse_hooks(model: nn.Module, example: Tensor, path: str) -> None:
    """Refuse hooks of one module that change values: other hooks are part of the features."""
    refuse_changing_hooks(model, [hook for hook in hooks_of(model, fed(model, example)) if hook.place[0] == path])


def features(model: nn.Module, head: nn.Linear, inputs: Tensor, monitor: Monitor) -> Tensor:
    """(B, p) inputs of the head."""
    read: list[Tensor] = []
    with watching({"head": head}, lambda _, x, __: read.append(x.clone())):
        for x in monitor.each("step", inputs.split(BATCH), name="forward"):
            model(x)
    return rows(torch.cat(read), -1)
