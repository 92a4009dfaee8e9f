"""Knowledge distillation of the parents' outputs on the fusion data into a student (Hinton et al. 2015)."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..fusion.eligibility import check_inputs, check_outputs, output_shape
from ..fusion.results import FusionResult
from ..fusion.task import Algorithm, Plan, Takes, Task
from ..networks.architectures import ARCHITECTURES, build
from ..networks.copies import run
from ..networks.inputs import Inputs, batches_of, count_of, moved, rows_of
from ..networks.outputs import check_class_scores, one_output, say_what_is_left
from ..system.device import default_dtype, on_device
from ..system.duplicates import duplicate
from ..system.monitor import Monitor
from ..system.refusals import Refusal
from ..system.settings import COUNT, Range, setting
from ..training.descent import Descent, descend, renew
from ..training.evaluation import as_logits
from .inputs import graph_of

#: Batch size of the teachers.
BATCH = 100


@dataclass(frozen=True)
class Distillation(Descent, Algorithm):
    """Trains a student on the fusion data alone, towards the parents' mean predictions.

    The student may be any network with the same classes (the target); by default it has parent 0's architecture. The loss
    is T^2 KL(teachers || student) at temperature T, or the squared distance of logits. Optimiser (AdamW) and number of
    epochs are those of the gradient fits, so that both have the same budget. The best epoch on held-out samples is
    restored; the start counts as an epoch. The seed determines initial weights, batches and dropout.

    Differences from the paper (Hinton et al.): no labels are used; several teachers count as their mean; the fusion data
    are not augmented, unless the caller did.
    """

    takes: ClassVar[Takes] = Takes(target=True, other_depths=True, any_architecture=True)
    title: ClassVar[str] = "KD"

    loss: Literal["kl", "mse"] = setting("kl", "kl, or mse (of logits; no temperature)")
    # Logits divided by less, or by much more, leave the range of float32.
    temperature: float = setting(
        2.0, "divisor of the logits; a higher one gives small probabilities more weight", Range(0.001, 10_000)
    )
    start: Literal["random", "parent0", "target"] = setting(
        "random",
        "initial weights of the student: random, parent0, or those of the target",
        title="Student starts from",
    )
    patience: int | None = setting(
        None, "epochs without improvement before training stops; none: never stop early", COUNT
    )

    def plan(self, task: Task) -> Plan:
        """Check that teachers and student have the same classes; see `Algorithm`."""
        written = [task.target if task.target is not None else task.parents[0]]
        check_inputs(task.parents, task.inputs, target=task.target, least=2, method=self.title, written=written)
        shape = check_outputs(task.parents, task.inputs)
        if self.loss == "kl":
            check_class_scores(
                shape,
                "KD with loss='kl'",
                "Use loss='mse', the squared distance of outputs of any shape.",
                ("loss", "mse"),
            )
        if self.start == "parent0" and task.target is not None:
            raise Refusal(
                "KD: start='parent0' needs parent 0's architecture, so there can be no target. Omit one of them.",
                ("start", "random"),
                ("target", None),
            )
        if self.start == "target" and task.target is None:
            raise Refusal(
                "KD: start='target' needs a target, the student with its weights. Pass one, or start='random'.",
                ("start", "random"),
            )
        student = shape if task.target is None else output_shape(task.target, task.inputs, "the target")
        if student != shape:
            raise ValueError(
                f"KD: the parents' outputs have shape {shape} per sample, the student's {student}. Give the student "
                "the parents' classes."
            )
        if one_output(written[0]) is not None:
            with suppress(ValueError):  # it need not have a graph
                say_what_is_left(written[0], graph_of(task, written[0]).weights)
        return Plan(task)

    def run(self, plan: Plan) -> FusionResult:
        """Ask the teachers, then train the student."""
        task = plan.task
        monitor, device = task.runtime.monitor, task.device
        model = task.target if task.target is not None else task.parents[0]
        student = (fresh(model, task.seed) if self.start == "random" else duplicate(model)).to(device)
        inputs = moved(task.inputs, device, next(student.parameters()).dtype)
        logits = logits_of(task.parents, inputs, device, monitor)  # (n, B, classes)
        goals = logits.mean(0) if self.loss == "mse" else (logits / self.temperature).softmax(2).mean(0)
        distance = F.mse_loss if self.loss == "mse" else partial(kl, temperature=self.temperature)
        monitor.emit("phase", name="distillation")
        curve = fit_to_goals(student, inputs, goals, distance, self, seed=task.seed, monitor=monitor)
        facts = {
            "temperature": self.temperature if self.loss == "kl" else None,
            "optimiser": "AdamW",
            "epochs_run": len(curve) - 1,
            "student": {
                "start": self.start,
                "architecture": getattr(student, "spec", type(student).__name__),
                "parameters": sum(p.numel() for p in student.parameters()),
            },
            "samples": count_of(inputs),
            "seed": task.seed,
            "curve": curve,
        }
        return self.result(student, task, **facts)


@torch.no_grad()
def logits_of(models: Sequence[nn.Module], inputs: Inputs, device: torch.device, monitor: Monitor) -> Tensor:
    """(n, B, classes) logits of all parents, in evaluation mode; raises `NotANumber`."""
    logits = []
    for index, model in enumerate(models):
        monitor.emit("phase", name="teachers", parent=index, parents=len(models))
        teacher = on_device(model, device).eval()
        batches = monitor.each("step", batches_of(inputs, BATCH), name="forward")
        outputs = torch.cat([run(teacher, x) for x in batches])
        logits.append(as_logits(outputs, f"fusion samples (network {index})"))
    return torch.stack(logits)


def kl(logits: Tensor, probabilities: Tensor, temperature: float) -> Tensor:
    """T^2 KL(teachers || student), mean over samples; the factor makes the size of gradients independent of T."""
    divergence = F.kl_div((logits / temperature).log_softmax(1), probabilities, reduction="batchmean")
    return divergence * temperature**2


@torch.no_grad()
def fresh(model: nn.Module, seed: int) -> nn.Module:
    """A network of the same architecture with new weights (by `renew` if it is not ours); leaves the global random state
    untouched. Parents trained with the same seed start at other weights."""
    example = next(model.parameters())
    own = int(torch.randint(2**62, (1,), generator=torch.Generator().manual_seed(seed)))
    spec = getattr(model, "spec", None)
    if isinstance(spec, dict) and spec.get("architecture") in ARCHITECTURES:
        with default_dtype(torch.float32):  # others would be drawn in float64
            return build(spec, own).to(example.device, example.dtype)
    renewed = duplicate(model)
    with torch.random.fork_rng():
        torch.manual_seed(own)
        renew(renewed)
    return renewed


def fit_to_goals(
    module: nn.Module,
    inputs: Inputs,
    goals: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    settings: Descent,
    *,
    seed: int,
    monitor: Monitor,
) -> list[dict[str, Any]]:
    """Train a module in place by `descend`, in training mode, to output the goals.

    Args:
        goals: (B, ...) for the inputs.
        distance: (outputs, goals) -> mean distance, a scalar.
    Returns:
        The curve of `descend`.
    """

    def loss(samples: Tensor) -> Tensor:
        return distance(run(module, rows_of(inputs, samples)), goals[samples])

    def measure(samples: Tensor) -> float:
        losses = [loss(part) * len(part) for part in samples.split(BATCH)]
        return torch.stack(losses).sum().item() / len(samples)

    with torch.random.fork_rng():
        torch.manual_seed(seed)  # for dropout
        curve = descend(
            module,
            len(goals),
            loss,
            measure,
            settings,
            generator=torch.Generator().manual_seed(seed),
            training_mode=True,
            # BatchNorm cannot normalise a single sample.
            smallest_batch=2
            if any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in module.modules())
            else 1,
            monitor=monitor,
        )
    module.eval()
    return curve
