"""train(): the one loop behind training and fine-tuning."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf, isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ..data import Images
from ..data.augment import POLICIES
from ..networks.outputs import as_classifier
from ..system import device as devices
from ..system.monitor import Monitor
from ..system.registry import find
from ..system.settings import check_seed
from . import state as states
from .batches import Augmentation, Batch, PixelSource, epoch_of, steps_in
from .descent import one_epoch
from .evaluation import check_suits, rows_of
from .optimizers import OPTIMIZERS
from .schedules import SCHEDULES, rates
from .state import Progress, Quality

#: Numbers of 4 bytes in the longest vector of a CPU.
VECTOR = 16
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
    compile: bool = False,
) -> list[dict[str, Any]]:
    """Train a classifier in place; the epoch that is best on held-out rows is restored, the start (epoch 0) included,
    and the model is left in eval mode.

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
        compile: take the steps on what torch.compile makes of the model. It needs a compiler and up to a minute, and
            its sums round otherwise; a state may go on with it or without.
    Returns:
        One dict an epoch: epoch, epochs, loss, accuracy (per cent on the held-out rows, else None), best (the epoch
        that is best so far). The first is the start, epoch 0, whose loss is None; the last one's best is what was
        restored, and 0 says that no epoch was better than the start. Without held-out rows the last epoch is best.
        The monitor first gets an event of kind "history", whose entries are the start, or the epochs in the state; then each
        further epoch as one of kind "epoch", besides one of kind "batch" a step.
    Raises:
        ValueError: no rows, a model that does not suit the images, settings out of range, a state that is damaged
            or was written with other settings, or a loss that is no longer finite.
    """
    rows = rows_of(images, rows)
    settings = {
        "epochs": epochs,
        "batch": batch,
        "optimizer": optimizer,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "schedule": schedule,
        "warmup": warmup,
        "floor": floor,
        "label_smoothing": label_smoothing,
        "clip": clip,
        "crop": crop,
        "flip": flip,
        "policy": policy,
        "cutmix": cutmix,
        "holdout": holdout,
        "precision": precision,
        "seed": seed,
    }
    check_settings(settings)
    check_suits(model, images)
    # Of networks that return several things; the weights are the model's own.
    whole, model = model, as_classifier(model, images.inputs([0]))
    monitor, chosen_device = monitor or Monitor(), devices.pick(device) if device else devices.of(model)
    augment, dtype = Augmentation(crop, flip, policy, cutmix), devices.autocast_dtype(precision, chosen_device)
    settings = {
        "data": f"{images.name} {images.split}",
        "mean": list(images.mean),
        "std": list(images.std),
        "training_rows": states.digest({"rows": rows}),
        **({"images": images.digest()} if state else {}),
        "initial_weights": states.digest(model.state_dict()),
        **settings,
        "optimizer": _name(optimizer),
        "schedule": _name(schedule),
        "precision": str(dtype).removeprefix("torch."),
    }
    draw = torch.Generator().manual_seed(seed)
    chosen = held_out_of(images.labels[rows], holdout, draw)
    fitted, held_out = (~chosen).nonzero().flatten(), chosen.nonzero().flatten()
    per_epoch = steps_in(len(fitted), batch)
    rate = rates(schedule, per_epoch, epochs, warmup=warmup, peak=learning_rate, floor=floor)
    with _on_device(model, chosen_device, images) as layout, _seeded(chosen_device, seed) as generators:
        stepper = find(OPTIMIZERS, optimizer, "optimizer")(model.parameters(), learning_rate, weight_decay)
        progress = Progress(model, stepper, [draw, *generators])
        best, history = progress.best, progress.history
        save = _Saver(Path(state) if state else None, settings, progress)
        source = PixelSource(images, rows, chosen_device, budget)
        # The steps alone: held-out rows come in batches of other sizes, each of which would be compiled again.
        network = torch.compile(model) if compile else model
        mixed = partial(torch.autocast, chosen_device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16)

        def loss_of(chunk: Batch) -> Tensor:
            with mixed():
                return _error(network(chunk.inputs), chunk, label_smoothing)

        def before_step(index: int) -> None:
            for group in stepper.param_groups:
                group["lr"] = rate(history[-1]["epoch"] * per_epoch + index)
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)

        def after_step(index: int) -> None:
            monitor.emit("batch", index=index + 1, total=per_epoch, epoch=history[-1]["epoch"] + 1, epochs=epochs)
            monitor.check()

        def note(epoch: int, loss: float | None) -> None:
            """Measure the epoch on the held-out rows and write it down."""
            with mixed():
                quality = _quality(model, source, held_out, layout)
            if quality:
                best.offer(epoch, quality)
            best_epoch = best.epoch if quality else epoch
            accuracy = quality and quality[0]
            history.append({"epoch": epoch, "epochs": epochs, "loss": loss, "accuracy": accuracy, "best": best_epoch})

        if not history:
            note(0, None)
        monitor.emit("history", epoch=history[-1]["epoch"], epochs=epochs, entries=[dict(entry) for entry in history])
        for epoch in range(history[-1]["epoch"] + 1, epochs + 1):
            model.train()
            batches = epoch_of(source, fitted, batch, augment, draw, layout)
            loss = one_epoch(batches, loss_of, stepper, before_step=before_step, after_step=after_step)
            if not isfinite(loss):
                raise ValueError(f"training diverged in epoch {epoch}: take a learning rate below {learning_rate}.")
            note(epoch, loss)
            save(last=epoch == epochs)
            monitor.emit("epoch", **history[-1])
        if best.state:
            best.restore()
    whole.eval()
    return history


def check_settings(settings: dict[str, Any]) -> None:
    """Refuse what `train` cannot do, before any work; a part of its keyword arguments may be given.

    Raises:
        ValueError: names the setting, and what it may be.
    """
    rate = settings.get("learning_rate", inf)
    for name, claim, holds in (
        ("epochs", "epochs >= 1", lambda value: value >= 1),
        ("batch", "batch >= 1", lambda value: value >= 1),
        ("learning_rate", "learning_rate > 0", lambda value: 0 < value < inf),
        ("weight_decay", "weight_decay >= 0", lambda value: 0 <= value < inf),
        ("warmup", "warmup >= 0", lambda value: 0 <= value < inf),
        ("floor", "floor in [0, learning_rate]", lambda value: 0 <= value <= rate),
        ("label_smoothing", "label_smoothing in [0, 1)", lambda value: 0 <= value < 1),
        ("clip", "clip > 0", lambda value: value is None or 0 < value < inf),
        ("crop", "crop >= 0", lambda value: value >= 0),
        ("holdout", "holdout in [0, 1)", lambda value: 0 <= value < 1),
    ):
        if name in settings and not holds(settings[name]):
            raise ValueError(f"training needs {claim}. Found {settings[name]}.")
    if "seed" in settings:
        check_seed(settings["seed"])
    for name, table, what in (
        ("optimizer", OPTIMIZERS, "optimizer"),
        ("schedule", SCHEDULES, "schedule"),
        ("policy", POLICIES, "AutoAugment policy"),
    ):
        if settings.get(name) is not None:
            find(table, settings[name], what)
    if "precision" in settings:
        devices.autocast_dtype(settings["precision"], torch.device("cpu"))


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


def _name(entry: str | Callable[..., Any]) -> str:
    return entry if isinstance(entry, str) else getattr(entry, "__qualname__", type(entry).__qualname__)


def held_out_of(labels: Tensor, part: float, draw: torch.Generator) -> Tensor:
    """(n,) bool: this part of every class, at least one row left to train on.

    Args:
        draw: of `train` with a seed, a generator that nothing was drawn from since it was seeded with it.
    """
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        rows = (labels == label).nonzero().flatten()
        count = min(round(part * len(rows)), len(rows) - 1)
        chosen[rows[torch.randperm(len(rows), generator=draw)[:count]]] = True
    return chosen


@contextmanager
def _on_device(model: nn.Module, device: torch.device, images: Images) -> Iterator[torch.memory_format]:
    """Move the model to a device, channels last where it has convolutions, and back at the end, in eval mode."""
    origin = devices.of(model)
    try:
        model.to(device)
        yield _lay_out(model, images, device)
    finally:
        model.to(origin).to(memory_format=torch.contiguous_format).eval()


@torch.no_grad()
def _lay_out(model: nn.Module, images: Images, device: torch.device) -> torch.memory_format:
    """Channels last where there are convolutions (VGG11 at half width on a CPU: 13 to 16 % faster), unless the model's
    code does not take it."""
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    if not convolutions or (device.type == "cpu" and any(map(_writes_outside, convolutions))):
        return torch.contiguous_format
    model.to(memory_format=torch.channels_last).eval()
    try:
        model(torch.zeros(2, *images.shape, device=device).contiguous(memory_format=torch.channels_last))
    except RuntimeError:  # such as a view() of an activation
        model.to(memory_format=torch.contiguous_format)
        return torch.contiguous_format
    return torch.channels_last


def _writes_outside(layer: nn.Conv2d) -> bool:
    """Whether its way back may write outside of its memory: oneDNN for AVX2 with one thread, channels last, a 1 x 1 window at a
    stride and fewer channels than a vector holds (the skips of narrow ResNets)."""
    return set(layer.kernel_size) == {1} and max(layer.stride) > 1 and layer.in_channels < VECTOR


@contextmanager
def _seeded(device: torch.device, seed: int) -> Iterator[list[torch.Generator]]:
    """The generators that the model itself draws from (dropout), seeded, and afterwards as they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        generators = [torch.default_generator]
        if device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            generators.append(torch.cuda.default_generators[index])
        for generator in generators:
            generator.manual_seed(seed)
        yield generators


def _error(logits: Tensor, batch: Batch, label_smoothing: float) -> Tensor:
    """Cross entropy; after CutMix with both labels, weighted by their parts of the image."""
    loss = partial(cross_entropy, logits.float(), label_smoothing=label_smoothing)
    if batch.share == 1:
        return loss(batch.labels)
    return batch.share * loss(batch.labels) + (1 - batch.share) * loss(batch.others)


@torch.no_grad()
def _quality(model: nn.Module, source: PixelSource, positions: Tensor, layout: torch.memory_format) -> Quality | None:
    """(accuracy in per cent, minus the loss) on these positions of the source."""
    if not len(positions):
        return None
    model.eval()
    measured = [
        (model(source.images.normalise(pixels).contiguous(memory_format=layout)).float(), labels)
        for pixels, labels in source.read(positions.split(CHECKED))
    ]
    logits, labels = (torch.cat(parts) for parts in zip(*measured, strict=True))
    accuracy = 100 * (logits.argmax(1) == labels).double().mean().item()
    return accuracy, -cross_entropy(logits, labels).item()
