"""Knowledge distillation: a student learns what the parents say of the fusion data (Hinton et al. 2015)."""

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import device as devices
from ..architectures import ARCHITECTURES, build
from ..batchnorm import BATCHNORMS
from ..descent import descend
from ..eligibility import check_inputs, check_outputs, on_device
from ..monitor import Monitor
from ..ranges import check_ranges
from ..registry import check_words
from ..results import FusionResult
from ..training_flags import keeps_training_flags
from ..walk import as_tensors

Loss = Literal["kl", "mse"]
Teachers = Literal["softmax", "logits"]
Start = Literal["random", "parent0", "target"]
#: Samples that the teachers see at once.
BATCH = 100


@keeps_training_flags
def distillation(
    models: Sequence[nn.Module],
    data: Any,
    *,
    loss: Loss = "kl",
    teachers: Teachers = "softmax",
    temperature: float = 2.0,
    start: Start = "random",
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-4,
    epochs: int = 100,
    batch_size: int = 32,
    validation: float = 0.1,
    patience: int | None = None,
    budget: float | None = None,
    target: nn.Module | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    monitor: Monitor | None = None,
) -> FusionResult:
    """Train a student on the fusion data alone, towards the parents' mean predictions. Parents are left as they are.

    The student may be any network of the same classes; the loss is T^2 KL(teachers || student) at temperature T, or the
    squared distance of logits. AdamW, the optimiser and number of epochs of the gradient fits, so that both have the same
    budget. The epoch that is best on held-out samples is restored, the start included.

    Differences from the paper (Hinton et al.): no labels take part; several teachers count as their mean; the fusion data
    are what they are, so augmentation is what the caller put into them.

    Args:
        data: fusion data.
        loss: "kl" or "mse" (of logits; no temperature).
        teachers: "softmax" (mean of the parents' softmax at the temperature, for "kl") or "logits" (of mean logits).
        temperature: what logits are divided by; a higher one shows more of the small probabilities.
        start: weights of the student: "random", "parent0", or "target" (those of the target).
        validation: share of the samples held out.
        patience: epochs without improvement before stopping; None: never.
        budget: seconds after which no epoch begins; None: no limit. With it results depend on the machine.
        target: the student's architecture; default: parent 0's.
        seed: of initial weights, batches and dropout.
    Raises:
        ValueError: unknown options, numbers that make no training, or a student with other classes.
    """
    begin, monitor, chosen_device = time.perf_counter(), monitor or Monitor(), devices.pick(device)
    check_words(loss=(loss, Loss), teachers=(teachers, Teachers), start=(start, Start))
    check_ranges(
        epochs=epochs,
        batch_size=batch_size,
        validation=validation,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        patience=patience,
        budget=budget,
        temperature=temperature,
        seed=seed,
    )
    inputs = as_tensors(data)[0]
    check_inputs(models, inputs, target=target, least=2, who="KD")
    check_outputs(models, inputs)
    student = _student(models, target, start, seed).to(chosen_device)
    inputs = inputs.to(chosen_device, next(student.parameters()).dtype)
    with torch.no_grad():
        logits = logits_of(models, inputs, chosen_device, monitor)  # (n, B, classes)
        outputs = student.eval()(inputs[:1])
    if outputs.shape[1:] != logits.shape[2:]:
        raise ValueError(
            f"KD: the parents' outputs have the shape {tuple(logits.shape[2:])} for a sample and the student's "
            f"{tuple(outputs.shape[1:])}. Give the student the parents' classes."
        )
    goals = logits.mean(0) if loss == "mse" else _soft(logits, temperature, teachers)
    distance = F.mse_loss if loss == "mse" else (lambda z, p: kl(z, p, temperature))
    curve = fit_to_goals(
        student,
        inputs,
        goals,
        distance,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        epochs=epochs,
        batch_size=batch_size,
        validation=validation,
        patience=patience,
        budget=budget,
        seed=seed,
        monitor=monitor,
    )
    config = {
        "method": "KD",
        "loss": loss,
        "teachers": teachers if loss == "kl" else "logits",
        "temperature": temperature if loss == "kl" else None,
        "optimiser": "AdamW",
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "epochs": epochs,
        "epochs_run": len(curve) - 1,
        "batch_size": batch_size,
        "validation": validation,
        "patience": patience,
        "budget": budget,
        "student": {
            "start": start,
            "architecture": getattr(student, "spec", type(student).__name__),
            "parameters": sum(p.numel() for p in student.parameters()),
        },
        "samples": len(inputs),
        "seed": seed,
        "device": str(chosen_device),
        "curve": curve,
    }
    return FusionResult(student, [], config, time.perf_counter() - begin)


@torch.no_grad()
def logits_of(models: Sequence[nn.Module], inputs: Tensor, device: torch.device, monitor: Monitor) -> Tensor:
    """(n, B, classes) of every parent, in evaluation mode."""
    logits = []
    for index, model in enumerate(models):
        monitor.emit("phase", name="teachers", parent=index, parents=len(models))
        teacher = on_device(model, device).eval()
        logits.append(torch.cat([teacher(x) for x in monitor.each("step", inputs.split(BATCH), name="forward")]))
    return torch.stack(logits)


def _soft(logits: Tensor, temperature: float, teachers: str) -> Tensor:
    """(B, classes) the teachers' probabilities."""
    if teachers == "logits":
        return (logits.mean(0) / temperature).softmax(1)
    return (logits / temperature).softmax(2).mean(0)


def kl(logits: Tensor, probabilities: Tensor, temperature: float) -> Tensor:
    """T^2 KL(teachers || student), mean over samples; the factor keeps gradients of one size whatever T."""
    divergence = F.kl_div((logits / temperature).log_softmax(1), probabilities, reduction="batchmean")
    return divergence * temperature**2


def _student(models: Sequence[nn.Module], target: nn.Module | None, start: str, seed: int) -> nn.Module:
    if start == "parent0" and target is not None:
        raise ValueError("KD: start='parent0' needs parent 0's architecture, so no target. Leave one of them out.")
    if start == "target" and target is None:
        raise ValueError(
            "KD: start='target' needs a target, the student with its weights. Pass one, or start='random'."
        )
    model = target if target is not None else models[0]
    return copy.deepcopy(model) if start != "random" else fresh(model, seed)


@torch.no_grad()
def fresh(model: nn.Module, seed: int) -> nn.Module:
    """A network of the same architecture with new weights; the global random state is left as it was.

    Where the architecture is not ours, modules initialise themselves; parameters of modules that cannot are drawn normally
    with the mean and deviation that they have.
    """
    example = next(model.parameters())
    spec = getattr(model, "spec", None)
    if isinstance(spec, dict) and spec.get("architecture") in ARCHITECTURES:
        return build(spec, seed).to(example.device, example.dtype)
    renewed = copy.deepcopy(model)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for module in renewed.modules():
            if callable(getattr(module, "reset_parameters", None)):
                module.reset_parameters()  # type: ignore[operator]
                continue
            for parameter in module.parameters(recurse=False):
                deviation = parameter.std(unbiased=False).item()
                parameter.normal_(parameter.mean().item(), deviation)
    return renewed


def fit_to_goals(
    module: nn.Module,
    inputs: Tensor,
    goals: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    *,
    learning_rate: float,
    weight_decay: float,
    epochs: int,
    batch_size: int,
    validation: float,
    patience: int | None,
    seed: int,
    budget: float | None = None,
    monitor: Monitor,
) -> list[dict[str, Any]]:
    """Bring a module's outputs to goals by `descend`, in training mode; the module itself is changed.

    Args:
        goals: (B, ...) for the inputs (B, ...).
        distance: mean distance of outputs and goals of some samples, a scalar.
    Returns:
        The curve of `descend`.
    """

    def loss(samples: Tensor) -> Tensor:
        return distance(module(inputs[samples]), goals[samples])

    def measure(samples: Tensor) -> float:
        losses = [loss(part) * len(part) for part in samples.split(BATCH)]
        return torch.stack(losses).sum().item() / len(samples)

    with torch.random.fork_rng():
        torch.manual_seed(seed)  # of dropout
        curve = descend(
            module,
            len(inputs),
            loss,
            measure,
            generator=torch.Generator().manual_seed(seed),
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            epochs=epochs,
            batch_size=batch_size,
            validation=validation,
            patience=patience,
            budget=budget,
            training_mode=True,
            # BatchNorm cannot normalise a single sample.
            smallest_batch=2 if any(isinstance(part, BATCHNORMS) for part in module.modules()) else 1,
            monitor=monitor,
        )
    module.eval()
    return curve
