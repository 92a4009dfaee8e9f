"""train(): the one loop behind training and fine-tuning."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from math import inf, isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from retrofit_core import device as devices
from retrofit_core.data import Images
from retrofit_core.data.augment import POLICIES
from retrofit_core.evaluation import check_suits, rows_of
from retrofit_core.monitor import Monitor
from retrofit_core.ranges import check_ranges
from retrofit_core.registry import find
from retrofit_core.training import state as states
from retrofit_core.training.batches import Augmentation, Batch, Source, epoch_of, steps_in
from retrofit_core.training.optimizers import OPTIMIZERS
from retrofit_core.training.schedules import rates
from retrofit_core.training.state import Progress, Quality

#: Writing the state may take so much of the time; where it would take more, epochs in between are not written.
WRITING = 0.1
CHECKED = 500  # images at once when the held-out rows are measured


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
    schedule: str | Callable[..., float] = "cosine",
    warmup: float = 2.0,
    floor: float = 0.0,
    label_smoothing: float = 0.1,
    clip: float | None = None,
    crop: int = 0,
    flip: bool = False,
    policy: str | None = None,
    cutmix: bool = False,
    holdout: float = 0.1,
    precision: str = "float32",
    seed: int = 0,
    state: str | Path | None = None,
    monitor: Monitor | None = None,
    device: str | torch.device | None = None,
    budget: int = devices.PIXEL_BYTES,
) -> list[dict[str, Any]]:
    """Train a classifier in place; the epoch that is best on held-out rows is restored, and the model left in
    eval mode.

    Label smoothing gives mass to classes a parent never sees, which keeps their logits low and alike; that is
    what makes the logits of parents trained on different classes comparable.

    Args:
        rows: train on these rows only (default: all).
        optimizer: an entry of OPTIMIZERS, or a function (parameters, rate, decay) -> optimiser.
        schedule: an entry of SCHEDULES, after a linear rise over `warmup` epochs (at most half of all).
        floor: the lowest rate of the schedule (eta_min).
        clip: longest gradient; longer ones are scaled down.
        crop, flip, policy, cutmix: augmentation, see `Augmentation`.
        holdout: part of the rows of each class kept for choosing the epoch; 0: keep the last epoch.
        precision: "float32", "bfloat16" (autocast; weights stay float32), or "auto": bfloat16 where the device
            gains by it.
        seed: of the held-out rows, the order, the augmentation and what the model draws itself. The initial
            weights are the model's.
        state: a .safetensors file for the state after each epoch. If it exists, training goes on from there; on
            the CPU the result is then bit for bit that of a training that was never stopped.
        device: default: where the model lies. It is moved back afterwards.
        budget: bytes of pixels kept on the device; what does not fit is decoded anew for each epoch.
    Returns:
        One dict an epoch: epoch (from 1), epochs, loss, accuracy (per cent on the held-out rows, else None).
        The same are sent to the monitor as events of kind "epoch", besides one of kind "batch" for each step.
    Raises:
        ValueError: no rows, a model that does not suit the images, settings out of range, a state that is damaged
            or was written with other settings, or a loss that is no longer finite.
    """
    rows = rows_of(images, rows)
    _check_ranges(
        ("epochs >= 1", epochs >= 1, epochs),
        ("batch >= 1", batch >= 1, batch),
        ("learning_rate > 0", 0 < learning_rate < inf, learning_rate),
        ("weight_decay >= 0", 0 <= weight_decay < inf, weight_decay),
        ("warmup >= 0", 0 <= warmup < inf, warmup),
        ("floor in [0, learning_rate]", 0 <= floor <= learning_rate, floor),
        ("label_smoothing in [0, 1)", 0 <= label_smoothing < 1, label_smoothing),
        ("clip > 0", clip is None or 0 < clip < inf, clip),
        ("crop >= 0", crop >= 0, crop),
        ("holdout in [0, 1)", 0 <= holdout < 1, holdout),
    )
    check_ranges(seed=seed)
    if policy is not None:
        find(POLICIES, policy, "AutoAugment policy")
    check_suits(model, images)
    monitor, place = monitor or Monitor(), devices.pick(device) if device else devices.of(model)
    augment, dtype = Augmentation(crop, flip, policy, cutmix), devices.autocast_dtype(precision, place)
    settings = {
        "data": f"{images.name} {images.split}",
        "mean": list(images.mean),
        "std": list(images.std),
        "training_rows": states.digest({"rows": rows}),
        **({"images": images.digest()} if state else {}),
        "initial_weights": states.digest(model.state_dict()),
        "epochs": epochs,
        "batch": batch,
        "optimizer": _name(optimizer),
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "schedule": _name(schedule),
        "warmup": warmup,
        "floor": floor,
        "label_smoothing": label_smoothing,
        "clip": clip,
        "crop": crop,
        "flip": flip,
        "policy": policy,
        "cutmix": cutmix,
        "holdout": holdout,
        "precision": str(dtype).removeprefix("torch."),
        "seed": seed,
    }
    draw = torch.Generator().manual_seed(seed)
    kept_out = _held_out(images.labels[rows], holdout, draw)
    fit_places, check_places = (~kept_out).nonzero().flatten(), kept_out.nonzero().flatten()
    per_epoch = steps_in(len(fit_places), batch)
    rate = rates(schedule, per_epoch, epochs, warmup=warmup, peak=learning_rate, floor=floor)
    with _on_device(model, place, images) as layout, _seeded(place, seed) as generators:
        stepper = find(OPTIMIZERS, optimizer, "optimizer")(model.parameters(), learning_rate, weight_decay)
        progress = Progress(model, stepper, [draw, *generators])
        save = _Saver(Path(state) if state else None, settings, progress)
        source = Source(images, rows, place, budget)
        mixed = partial(torch.autocast, place.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16)

        def tell(index: int) -> None:
            monitor.emit("batch", index=index, total=per_epoch, epoch=len(progress.history) + 1, epochs=epochs)
            monitor.check()

        for epoch in range(len(progress.history) + 1, epochs + 1):
            batches = epoch_of(source, fit_places, batch, augment, draw, layout)
            speeds = (rate(step) for step in range((epoch - 1) * per_epoch, epoch * per_epoch))
            loss = _epoch(model, stepper, batches, speeds, mixed, label_smoothing, clip, tell)
            if not isfinite(loss):
                raise ValueError(f"training diverged in epoch {epoch}: take a learning rate below {learning_rate}.")
            with mixed():
                quality = _quality(model, source, check_places, layout)
            if quality and (progress.best is None or quality > progress.best[0]):
                progress.best = quality, {name: value.clone() for name, value in model.state_dict().items()}
            entry = {"epoch": epoch, "epochs": epochs, "loss": loss, "accuracy": quality and quality[0]}
            progress.history.append(entry)
            save(last=epoch == epochs)
            monitor.emit("epoch", **entry)
        if progress.best:
            model.load_state_dict(progress.best[1])
    return progress.history


class _Saver:
    """Restores what a state file holds, then writes one after an epoch, without taking much of the time."""

    def __init__(self, path: Path | None, settings: dict[str, Any], progress: Progress) -> None:
        self.path, self.settings, self.progress = path, settings, progress
        self.cost, self.written = 0.0, -float("inf")
        if path and path.exists():
            states.restore(path, settings, progress)

    def __call__(self, last: bool) -> None:
        start = time.perf_counter()
        if self.path and (last or self.cost <= WRITING * (start - self.written)):
            states.write(self.path, self.settings, self.progress)
            self.written = time.perf_counter()
            self.cost = self.written - start


def _check_ranges(*claims: tuple[str, bool, Any]) -> None:
    for claim, holds, found in claims:
        if not holds:
            raise ValueError(f"training needs {claim}. Found {found}.")


def _name(entry: str | Callable[..., Any]) -> str:
    return entry if isinstance(entry, str) else getattr(entry, "__qualname__", type(entry).__qualname__)


def _held_out(labels: Tensor, part: float, draw: torch.Generator) -> Tensor:
    """(n,) bool: this part of every class, at least one row left to train on."""
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        rows = (labels == label).nonzero().flatten()
        count = min(round(part * len(rows)), len(rows) - 1)
        chosen[rows[torch.randperm(len(rows), generator=draw)[:count]]] = True
    return chosen


@contextmanager
def _on_device(model: nn.Module, place: torch.device, images: Images) -> Iterator[torch.memory_format]:
    """Move the model there, channels last where it has convolutions, and back when all is done; left in eval mode."""
    home = devices.of(model)
    try:
        model.to(place)
        yield _lay_out(model, images, place)
    finally:
        model.to(home).to(memory_format=torch.contiguous_format).eval()


@torch.no_grad()
def _lay_out(model: nn.Module, images: Images, place: torch.device) -> torch.memory_format:
    """Channels last where there are convolutions (VGG11 at half width on a CPU: 13 to 16 % faster), unless the model's
    code does not take it."""
    if not any(isinstance(module, nn.Conv2d) for module in model.modules()):
        return torch.contiguous_format
    model.to(memory_format=torch.channels_last).eval()
    try:
        model(torch.zeros(2, *images.shape, device=place).contiguous(memory_format=torch.channels_last))
    except RuntimeError:  # such as a view() of an activation
        model.to(memory_format=torch.contiguous_format)
        return torch.contiguous_format
    return torch.channels_last


@contextmanager
def _seeded(place: torch.device, seed: int) -> Iterator[list[torch.Generator]]:
    """The generators that the model itself draws from (dropout), seeded, and afterwards as they were."""
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        generators = [torch.default_generator]
        if place.type == "cuda":
            index = torch.cuda.current_device() if place.index is None else place.index
            generators.append(torch.cuda.default_generators[index])
        for generator in generators:
            generator.manual_seed(seed)
        yield generators


def _epoch(
    model: nn.Module,
    stepper: torch.optim.Optimizer,
    batches: Iterable[Batch],
    speeds: Iterable[float],
    mixed: Callable[[], AbstractContextManager],
    label_smoothing: float,
    clip: float | None,
    tell: Callable[[int], None],
) -> float:
    """A step for each batch at its learning rate; returns the mean loss."""
    total, seen = torch.zeros((), device=devices.of(model)), 0
    model.train()
    for index, (chunk, speed) in enumerate(zip(batches, speeds, strict=True)):
        for group in stepper.param_groups:
            group["lr"] = speed
        with mixed():
            error = _error(model(chunk.inputs), chunk, label_smoothing)
        stepper.zero_grad()
        error.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        stepper.step()
        # Added up on the device: reading it at every step would make the device wait.
        total, seen = total + error.detach() * len(chunk.labels), seen + len(chunk.labels)
        tell(index + 1)
    return total.item() / seen


def _error(logits: Tensor, batch: Batch, label_smoothing: float) -> Tensor:
    """Cross entropy; after CutMix with both labels, weighted by their parts of the image."""
    loss = partial(cross_entropy, logits.float(), label_smoothing=label_smoothing)
    if batch.share == 1:
        return loss(batch.labels)
    return batch.share * loss(batch.labels) + (1 - batch.share) * loss(batch.others)


@torch.no_grad()
def _quality(model: nn.Module, source: Source, places: Tensor, layout: torch.memory_format) -> Quality | None:
    """(accuracy in per cent, minus the loss) on these positions of the source."""
    if not len(places):
        return None
    model.eval()
    found = [
        (model(source.images.normalise(pixels).contiguous(memory_format=layout)).float(), labels)
        for pixels, labels in source.read(places.split(CHECKED))
    ]
    logits, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
    accuracy = 100 * (logits.argmax(1) == labels).double().mean().item()
    return accuracy, -cross_entropy(logits, labels).item()
