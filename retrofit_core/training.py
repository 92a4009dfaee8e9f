"""Training of small classifiers (digits, MNIST) from scratch."""

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from retrofit_core import device as devices
from retrofit_core.data import Images
from retrofit_core.monitor import Monitor
from retrofit_core.registry import find


def adamw(parameters: Iterable[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=rate, weight_decay=decay)


def sgd(parameters: Iterable[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    """With Nesterov momentum 0.9."""
    return torch.optim.SGD(parameters, lr=rate, weight_decay=decay, momentum=0.9, nesterov=True)


OPTIMIZERS = {"adamw": adamw, "sgd": sgd}


def train(
    model: nn.Module,
    images: Images,
    rows: Tensor | None = None,
    *,
    epochs: int = 20,
    batch: int = 64,
    optimizer: str | Callable[..., torch.optim.Optimizer] = "adamw",
    learning_rate: float = 3e-3,
    weight_decay: float = 1e-4,
    warmup: float = 0.1,
    label_smoothing: float = 0.1,
    holdout: float = 0.1,
    shift: int = 0,
    seed: int = 0,
    monitor: Monitor | None = None,
    device: str | torch.device | None = None,
) -> list[dict[str, Any]]:
    """Train a classifier in place; the epoch that is best on held-out rows is restored, and the model left in
    eval mode.

    Label smoothing gives mass to classes a parent never sees, which keeps their logits low and alike; that is
    what makes the logits of parents trained on different classes comparable.

    Args:
        rows: train on these rows only (default: all).
        warmup: part of all steps with a linearly rising rate; then a cosine to zero.
        holdout: part of the rows of each class kept for choosing the epoch; 0: keep the last epoch.
        shift: random shifts of up to so many pixels, padded with black, drawn anew for each image.
        seed: of the held-out rows, the order and what the model draws itself. The initial weights are the
            model's.
        device: default: where the model lies. It is moved back afterwards.
    Returns:
        One dict an epoch: epoch (from 1), epochs, loss, accuracy (per cent on the held-out rows, else None).
        The same are sent to the monitor as events of kind "epoch".
    Raises:
        ValueError: no rows, settings out of range, or a loss that is no longer finite.
    """
    rows = torch.arange(len(images)) if rows is None else torch.as_tensor(rows, dtype=torch.int64)
    _check(images, rows, epochs, batch, holdout)
    monitor = monitor or Monitor()
    home, place = devices.of(model), devices.pick(device) if device else devices.of(model)
    draw = torch.Generator().manual_seed(seed)
    kept_out = _held_out(images.labels[rows], holdout, draw)
    pixels, labels = images.pixels(rows).to(place), images.labels[rows].to(place)
    fit_rows, check_rows = (~kept_out).nonzero().flatten().to(place), kept_out.nonzero().flatten().to(place)
    model.to(place)
    steps = epochs * math.ceil(len(fit_rows) / batch)
    stepper = find(OPTIMIZERS, optimizer, "optimizer")(model.parameters(), learning_rate, weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(stepper, lambda step: _rate(step, steps, warmup))
    history: list[dict[str, Any]] = []
    best: tuple[tuple[float, float], dict[str, Tensor]] | None = None
    try:
        with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
            torch.default_generator.manual_seed(seed)
            for epoch in range(1, epochs + 1):
                loss = 0.0
                model.train()
                for chunk in _shuffled(fit_rows, draw).split(batch):
                    monitor.check()
                    inputs = images.normalise(_shifted(pixels[chunk], shift, draw))
                    error = cross_entropy(model(inputs), labels[chunk], label_smoothing=label_smoothing)
                    stepper.zero_grad()
                    error.backward()
                    stepper.step()
                    schedule.step()
                    loss += error.item() * len(chunk) / len(fit_rows)
                if not math.isfinite(loss):
                    raise ValueError(f"training diverged in epoch {epoch}: take a learning rate below {learning_rate}.")
                quality = _quality(model, images, pixels, labels, check_rows, batch)
                entry = {"epoch": epoch, "epochs": epochs, "loss": loss, "accuracy": quality and quality[0]}
                history.append(entry)
                monitor.emit("epoch", **entry)
                if quality and (best is None or quality > best[0]):
                    best = quality, deepcopy(model.state_dict())
        if best:
            model.load_state_dict(best[1])
    finally:
        model.to(home).eval()
    return history


def _check(images: Images, rows: Tensor, epochs: int, batch: int, holdout: float) -> None:
    if not len(rows):
        raise ValueError(f"no rows of data set {images.name!r} to train on.")
    if epochs < 1 or batch < 1 or not 0 <= holdout < 1:
        raise ValueError(
            f"training needs epochs >= 1, batch >= 1 and holdout in [0, 1). Found {epochs}, {batch}, {holdout}."
        )


def _held_out(labels: Tensor, part: float, draw: torch.Generator) -> Tensor:
    """(n,) bool: this part of every class, at least one row left to train on."""
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        rows = (labels == label).nonzero().flatten()
        count = min(round(part * len(rows)), len(rows) - 1)
        chosen[rows[torch.randperm(len(rows), generator=draw)[:count]]] = True
    return chosen


def _rate(step: int, steps: int, warmup: float) -> float:
    """Linear warm-up, then a cosine to zero; never zero at a step that is taken."""
    rising = max(1, round(warmup * steps))
    if step < rising:
        return (step + 1) / rising
    return 0.5 * (1 + math.cos(math.pi * (step - rising + 1) / (steps - rising + 1)))


def _shuffled(rows: Tensor, draw: torch.Generator) -> Tensor:
    return rows[torch.randperm(len(rows), generator=draw).to(rows.device)]


def _shifted(pixels: Tensor, reach: int, draw: torch.Generator) -> Tensor:
    """Each image (n, C, H, W) moved by its own offset of up to `reach` pixels."""
    if not reach:
        return pixels
    n, _, height, width = pixels.shape
    down, right = torch.randint(2 * reach + 1, (2, n, 1), generator=draw).to(pixels.device)  # (n, 1) each
    padded = pad(pixels, (reach,) * 4)  # (n, C, H + 2 reach, W + 2 reach)
    y = (down + torch.arange(height, device=pixels.device)).unsqueeze(2)  # (n, H, 1)
    x = (right + torch.arange(width, device=pixels.device)).unsqueeze(1)  # (n, 1, W)
    image = torch.arange(n, device=pixels.device).view(-1, 1, 1)
    # Indexed dimensions come first: (n, H, W, C) -> (n, C, H, W).
    return padded[image, :, y, x].permute(0, 3, 1, 2)


@torch.no_grad()
def _quality(
    model: nn.Module, images: Images, pixels: Tensor, labels: Tensor, rows: Tensor, batch: int
) -> tuple[float, float] | None:
    """(accuracy in per cent, minus the loss) on these rows; the loss decides between equal accuracies."""
    if not len(rows):
        return None
    model.eval()
    logits = torch.cat([model(images.normalise(pixels[chunk])) for chunk in rows.split(max(batch, 500))])
    accuracy = 100 * (logits.argmax(1) == labels[rows]).double().mean().item()
    return accuracy, -cross_entropy(logits, labels[rows]).item()
