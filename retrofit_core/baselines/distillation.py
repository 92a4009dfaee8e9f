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
from ..eligibility import check_inputs, check_outputs, on_device
from ..monitor import Monitor
from ..ranges import check_ranges
from ..registry import check_words
from ..results import FusionResult
from ..samples import as_tensors
from ..training_flags import keeps_training_flags

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
    begin, monitor, place = time.perf_counter(), monitor or Monitor(), devices.pick(device)
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
    student = _student(models, target, start, seed).to(place)
    inputs = inputs.to(place, next(student.parameters()).dtype)
    with torch.no_grad():
        logits = logits_of(models, inputs, place, monitor)  # (n, B, classes)
        outputs = student.eval()(inputs[:1])
    if outputs.shape[1:] != logits.shape[2:]:
        raise ValueError(
            f"KD: the parents' outputs have the shape {tuple(logits.shape[2:])} for a sample and the student's "
            f"{tuple(outputs.shape[1:])}. Give the student the parents' classes."
        )
    goals = logits.mean(0) if loss == "mse" else _soft(logits, temperature, teachers)
    distance = F.mse_loss if loss == "mse" else (lambda z, p: kl(z, p, temperature))
    curve = descend(
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
        "device": str(place),
        "curve": curve,
    }
    return FusionResult(student, [], config, time.perf_counter() - begin)


@torch.no_grad()
def logits_of(models: Sequence[nn.Module], inputs: Tensor, place: torch.device, monitor: Monitor) -> Tensor:
    """(n, B, classes) of every parent, in evaluation mode."""
    found = []
    for index, model in enumerate(models):
        monitor.emit("phase", name="teachers", parent=index, parents=len(models))
        here = on_device(model, place).eval()
        found.append(torch.cat([here(x) for x in monitor.each("step", inputs.split(BATCH), name="forward")]))
    return torch.stack(found)


def _soft(logits: Tensor, temperature: float, teachers: str) -> Tensor:
    """(B, classes) the teachers' probabilities."""
    if teachers == "logits":
        return (logits.mean(0) / temperature).softmax(1)
    return (logits / temperature).softmax(2).mean(0)


def kl(logits: Tensor, probabilities: Tensor, temperature: float) -> Tensor:
    """T^2 KL(teachers || student), mean over samples; the factor keeps gradients of one size whatever T."""
    found = F.kl_div((logits / temperature).log_softmax(1), probabilities, reduction="batchmean")
    return found * temperature**2


def _student(models: Sequence[nn.Module], target: nn.Module | None, start: str, seed: int) -> nn.Module:
    if start == "parent0" and target is not None:
        raise ValueError("KD: start='parent0' needs parent 0's architecture, so no target. Leave one of them away.")
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
    found = copy.deepcopy(model)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for module in found.modules():
            if callable(getattr(module, "reset_parameters", None)):
                module.reset_parameters()  # type: ignore[operator]
                continue
            for parameter in module.parameters(recurse=False):
                deviation = parameter.std(unbiased=False).item()
                parameter.normal_(parameter.mean().item(), deviation)
    return found


def descend(
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
    """Train a module in place by AdamW, in training mode; the epoch that is best on held-out samples is restored.

    Returns:
        One dict per epoch: epoch, loss (training), validation; epoch 0 is the start.
    """
    begin = time.perf_counter()
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(inputs), generator=generator).to(inputs.device)
    count = min(len(order) - 1, max(1, round(validation * len(order))))
    held_out, train = order[:count], order[count:]

    def mean_loss(which: Tensor) -> float:
        module.eval()
        with torch.no_grad():
            losses = [distance(module(inputs[part]), goals[part]) * len(part) for part in which.split(BATCH)]
        return torch.stack(losses).sum().item() / len(which)

    parameters = list(module.parameters())
    flags = [parameter.requires_grad for parameter in parameters]
    for parameter in parameters:
        parameter.requires_grad_(True)
    optimiser = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=weight_decay)
    least, best_epoch, best = mean_loss(held_out), 0, _state(module)
    curve: list[dict[str, Any]] = [{"epoch": 0, "loss": mean_loss(train), "validation": least}]
    with torch.random.fork_rng(), torch.enable_grad():
        torch.manual_seed(seed)  # of dropout
        for epoch in range(1, epochs + 1):
            if budget is not None and time.perf_counter() - begin > budget:
                break
            module.train()
            total = torch.zeros((), device=inputs.device)
            for batch in batches(
                train[torch.randperm(len(train), generator=generator).to(train.device)], batch_size, module
            ):
                monitor.check()
                optimiser.zero_grad(set_to_none=True)
                loss = distance(module(inputs[batch]), goals[batch])
                loss.backward()
                optimiser.step()
                total += loss.detach() * len(batch)
            curve.append({"epoch": epoch, "loss": total.item() / len(train), "validation": mean_loss(held_out)})
            monitor.emit("epoch", index=epoch, total=epochs, **{k: v for k, v in curve[-1].items() if k != "epoch"})
            if curve[-1]["validation"] < least:
                least, best_epoch, best = curve[-1]["validation"], epoch, _state(module)
            elif patience is not None and epoch - best_epoch >= patience:
                break
    module.load_state_dict(best)
    for parameter, flag in zip(parameters, flags, strict=True):
        parameter.requires_grad_(flag)
        parameter.grad = None
    module.eval()
    return curve


def batches(order: Tensor, size: int, module: nn.Module) -> list[Tensor]:
    """The samples in batches; a last batch of one joins the one before where BatchNorm could not normalise it."""
    found = list(order.split(size))
    if len(found) > 1 and len(found[-1]) == 1 and any(isinstance(part, BATCHNORMS) for part in module.modules()):
        found[-2:] = [torch.cat(found[-2:])]
    return found


def _state(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
