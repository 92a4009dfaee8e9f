"""Linear probing: parent 0's features, a new class head for what all parents say (LP of Luenam et al.)."""

import copy
import time
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import device as devices
from ..eligibility import check_inputs, check_outputs
from ..levels import rows
from ..moments import Rows, ridge_strength, solve
from ..monitor import Monitor
from ..ranges import check_ranges
from ..registry import check_words
from ..results import FusionResult
from ..samples import as_tensors
from ..training_flags import keeps_training_flags
from .distillation import BATCH, descend, logits_of
from .layersums import inputs_of

Goals = Literal["logits", "probabilities"]
Fit = Literal["gradient", "ridge"]


@keeps_training_flags
@torch.no_grad()
def linear_probe(
    models: Sequence[nn.Module],
    data: Any,
    *,
    goals: Goals = "logits",
    fit: Fit = "gradient",
    ridge: float | str = 0.0,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-4,
    epochs: int = 100,
    batch_size: int = 32,
    validation: float = 0.1,
    patience: int | None = 15,
    seed: int = 0,
    device: str | torch.device | None = None,
    monitor: Monitor | None = None,
) -> FusionResult:
    """Start from parent 0 and retrain its last linear layer alone on the parents' mean outputs; parents stay as they are.

    It is KF with every level skipped but the head. Squared error; AdamW from parent 0's head with the settings of the
    gradient fits (paper, App. F.1), or the closed form. All other tensors are parent 0's bit for bit.

    Differences from earlier code of the authors, which regresses logits on the mean of the parents' softmax: that is
    `goals="probabilities"`; by default goals are the mean of logits, as in KF's head with uniform scores.

    Args:
        data: fusion data.
        goals: "logits" or "probabilities".
        fit: "gradient", or "ridge": the closed form.
        ridge: its strength, see `ridge_strength`; 0 is least squares. Towards parent 0's head where it is positive.
    Raises:
        ValueError: unknown options, a network whose outputs are not those of a linear layer, or different classes.
    """
    start, monitor, place = time.perf_counter(), monitor or Monitor(), devices.pick(device)
    check_words(goals=(goals, Goals), fit=(fit, Fit))
    check_ranges(
        epochs=epochs,
        batch_size=batch_size,
        validation=validation,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        patience=patience,
        seed=seed,
    )
    ridge_strength(ridge, 1.0, "parents")  # refuses a wrong one before any work
    inputs = as_tensors(data)[0]
    check_inputs(models, inputs, target=None, least=2, who="LP")
    check_outputs(models, inputs)
    fused = copy.deepcopy(models[0]).to(place).eval()
    inputs = inputs.to(place, next(fused.parameters()).dtype)
    name = head_of(fused, inputs[:2])
    head = fused.get_submodule(name)
    assert isinstance(head, nn.Linear)
    logits = logits_of(models, inputs, place, monitor)
    wanted = logits.mean(0) if goals == "logits" else logits.softmax(2).mean(0)
    x = features(fused, head, inputs, monitor)
    monitor.emit("phase", name="fit", level=name)
    curve: list[dict[str, Any]] = []
    if fit == "ridge":
        _solve_head(head, x, wanted, ridge)
    else:
        curve = descend(
            head,
            x,
            wanted,
            F.mse_loss,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            epochs=epochs,
            batch_size=batch_size,
            validation=validation,
            patience=patience,
            seed=seed,
            monitor=monitor,
        )
    training = {
        "optimiser": "AdamW",
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "epochs": epochs,
        "epochs_run": len(curve) - 1,
        "batch_size": batch_size,
        "validation": validation,
        "patience": patience,
        "curve": curve,
    }
    config = {
        "method": "LP",
        "goals": goals,
        "fit": fit,
        "head": name,
        "samples": len(inputs),
        "seed": seed,
        "device": str(place),
        **(training if fit == "gradient" else {"ridge": ridge}),
    }
    return FusionResult(fused, [], config, time.perf_counter() - start)


def head_of(model: nn.Module, example: Tensor) -> str:
    """The name of the linear layer whose output is the model's.

    Raises:
        ValueError: there is none.
    """
    found: dict[str, Tensor] = {}
    layers = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    with inputs_of(layers, lambda name, _, output: found.__setitem__(name, output)):
        outputs = model(example)
    for name in reversed(found):
        if found[name].shape == outputs.shape and torch.equal(found[name], outputs):
            return name
    raise ValueError(
        f"the outputs of {type(model).__name__} are not those of one of its nn.Linear layers, so there is no head that could "
        "be trained alone. Use KD or KF-Gradient."
    )


def features(model: nn.Module, head: nn.Linear, inputs: Tensor, monitor: Monitor) -> Tensor:
    """(B, p) what the head reads."""
    found: list[Tensor] = []
    with inputs_of({"head": head}, lambda _, x, __: found.append(x)):
        for x in monitor.each("step", inputs.split(BATCH), name="forward"):
            model(x)
    return rows(torch.cat(found), -1)


def _solve_head(head: nn.Linear, x: Tensor, goals: Tensor, ridge: float | str) -> None:
    """The least squares solution, with the ridge towards the head's own weights."""
    x, own = x.double(), head.weight.T.double()
    if head.bias is not None:
        x = torch.cat([x, torch.ones_like(x[:, :1])], 1)
        own = torch.cat([own, head.bias[None].double()])
    sums = Rows(x, goals.double(), head.bias is not None)
    solution = solve(sums if len(x) < x.shape[1] else sums.moments(), ridge, toward=own)
    W = solution.weights(torch.eye(goals.shape[1], dtype=x.dtype, device=x.device))
    if head.bias is not None:
        head.bias.copy_(W[-1])
        W = W[:-1]
    head.weight.copy_(W.T)
