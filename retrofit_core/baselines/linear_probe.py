"""Linear probing: parent 0's features, a new class head fitted to all parents' outputs (LP of Luenam et al.)."""

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..fusion.eligibility import check_inputs, check_outputs
from ..fusion.fit.ridge import why_no_ridge
from ..fusion.moments import Rows, solve
from ..fusion.results import FusionResult
from ..fusion.task import Algorithm, Cost, Plan, Takes, Task
from ..networks.copies import evaluating
from ..networks.hooks import hooks_of, refuse_changing_hooks
from ..networks.levels import rows
from ..networks.levels.weights import refuse_shared
from ..networks.outputs import check_class_scores
from ..networks.wrappers import class_name
from ..system import device as devices
from ..system.monitor import Monitor
from ..system.settings import setting, settings_of
from ..training.descent import Descent
from .distillation import BATCH, fit_to_goals, logits_of
from .layers import form_of, watching


@dataclass(frozen=True)
class LinearProbe(Descent, Algorithm):
    """Parent 0 with only its last linear layer retrained, on the parents' mean outputs.

    This is KF with every level skipped but the head. It minimises the squared error, by AdamW from parent 0's head with
    the settings of the gradient fits (paper, App. F.1), or in closed form. All other tensors are exactly parent 0's.

    Differences from earlier code of the authors, which regresses logits on the mean of the parents' softmax
    (`goals="probabilities"`): by default goals are the mean of logits, as in KF's head with uniform scores.
    """

    takes: ClassVar[Takes] = Takes(other_depths=True)
    title: ClassVar[str] = "LP"

    goals: Literal["logits", "probabilities"] = setting(
        "logits", "means of the parents' logits, or of their probabilities", title="Targets of the head"
    )
    fit: Literal["gradient", "ridge"] = setting(
        "gradient", "gradient, or ridge: the closed form", title="Fit of the head"
    )
    ridge: float | str = setting(
        0.0,
        "strength of the closed form's ridge towards parent 0's head: auto, a number, or a multiple of the mean "
        "input energy such as 0.1x; 0 is least squares",
        check=why_no_ridge,
        title="Ridge strength",
    )

    def __post_init__(self) -> None:
        """Check every field, and refuse those without effect."""
        super().__post_init__()
        for name, entry in settings_of(LinearProbe).items():
            if name in self._idle() and getattr(self, name) != entry.default:
                other = "ridge" if self.fit == "gradient" else "gradient"
                raise ValueError(f"{name} does nothing with fit={self.fit!r}. Leave it out, or use fit={other!r}.")

    def to_json(self) -> dict[str, Any]:
        """The fields that have an effect."""
        return {name: value for name, value in super().to_json().items() if name not in self._idle()}

    def _idle(self) -> tuple[str, ...]:
        """Settings without effect for this fit."""
        return ("ridge",) if self.fit == "gradient" else tuple(settings_of(Descent))

    def plan(self, task: Task) -> Plan:
        """Check the classes and find the head; see `Algorithm`."""
        check_inputs(task.parents, task.inputs, target=None, least=2, method=self.title, written=task.parents[:1])
        shape = check_outputs(task.parents, task.inputs)
        if self.goals == "probabilities":
            check_class_scores(shape, "LP with goals='probabilities'", "Use goals='logits'.", ("goals", "logits"))
        samples, example = len(task.inputs), task.inputs[:2]
        _refuse_hooks(task.parents[0], example, "")
        head = head_of(task.parents[0], example)
        _refuse_hooks(task.parents[0], example, head)
        alone = "so the head cannot be trained alone. Use KF-Linear, or give each layer its own weights."
        refuse_shared(task.parents[0], head, "LP, parent 0", alone)
        cost = Cost(samples, trained="head", epochs=self.epochs_range, samples=samples, batch=self.batch_size)
        # The closed form takes almost no time.
        return Plan(task, Cost(samples) if self.fit == "ridge" else cost)

    @torch.no_grad()
    def run(self, plan: Plan) -> FusionResult:
        """Run the parents, then fit the head."""
        task = plan.task
        monitor, device = task.runtime.monitor, task.device
        fused = copy.deepcopy(task.parents[0]).to(device).eval()
        inputs = task.inputs.to(device, task.dtype)
        name = head_of(fused, task.inputs[:2])
        head = fused.get_submodule(name)
        assert isinstance(head, nn.Linear)
        logits = logits_of(task.parents, inputs, device, monitor)
        goals = rows(logits.mean(0) if self.goals == "logits" else logits.softmax(2).mean(0), -1)
        x = features(fused, head, inputs, monitor)
        monitor.emit("phase", name="fit", level=name)
        curve: list[dict[str, Any]] = []
        if self.fit == "ridge":
            _solve_head(head, x, goals, self.ridge)
        else:
            curve = fit_to_goals(head, x, goals, F.mse_loss, self, seed=task.seed, monitor=monitor)
        training = {"optimiser": "AdamW", "epochs_run": len(curve) - 1, "curve": curve}
        facts = {"head": name, "samples": len(inputs), "seed": task.seed}
        return self.result(fused, task, **facts, **(training if self.fit == "gradient" else {}))


def head_of(model: nn.Module, example: Tensor) -> str:
    """The name of the linear layer whose output is the model's.

    Args:
        example: (B, ...) samples to run.
    Raises:
        ValueError: there is none.
    """
    layer_outputs: dict[str, Tensor] = {}
    layers = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    example = example.to(devices.of(model), next(model.parameters()).dtype)
    note = watching(layers, lambda name, _, output: layer_outputs.__setitem__(name, output.clone()))
    with torch.no_grad(), evaluating(model), note:
        outputs = model(example)
    for name in reversed(layer_outputs):
        if layer_outputs[name].shape == outputs.shape and torch.equal(layer_outputs[name], outputs):
            return name
    raise ValueError(
        f"the outputs of {class_name(model)} do not come from one of its nn.Linear layers, so there is no head to "
        "train alone. Use KF-Gradient."
    )


def _refuse_hooks(model: nn.Module, example: Tensor, path: str) -> None:
    """Refuse hooks of one module that change values: other hooks are part of the features."""
    example = example.to(devices.of(model), next(model.parameters()).dtype)
    refuse_changing_hooks(model, [hook for hook in hooks_of(model, example) if hook.place[0] == path])


def features(model: nn.Module, head: nn.Linear, inputs: Tensor, monitor: Monitor) -> Tensor:
    """(B, p) inputs of the head."""
    read: list[Tensor] = []
    with watching({"head": head}, lambda _, x, __: read.append(x.clone())):
        for x in monitor.each("step", inputs.split(BATCH), name="forward"):
            model(x)
    return rows(torch.cat(read), -1)


def _solve_head(head: nn.Linear, x: Tensor, goals: Tensor, ridge: float | str) -> None:
    """Write the least-squares solution, with a ridge towards the head's own weights."""
    form = form_of(head)
    x, start = form.rows([x], torch.float64, ones=form.bias), form.weights()
    sums = Rows(x, goals.double(), form.bias)
    solution = solve(sums if len(x) < x.shape[1] else sums.moments(), ridge, toward=start)
    form.write(solution.weights(torch.eye(goals.shape[1], dtype=x.dtype, device=x.device)))
