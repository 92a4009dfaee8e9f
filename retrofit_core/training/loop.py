"""train(): the loop for training and fine-tuning."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ..data import Images
from ..data.augment import POLICIES, augmented
from ..networks.outputs import as_classifier
from ..system import device as devices
from ..system.monitor import Monitor
from ..system.registry import find, known_name
from ..system.settings import AT_LEAST_ONE, COUNT, SEED, Range
from . import state as states
from .batches import PixelSource, epoch_of, steps_in
from .descent import one_epoch, stepping
from .evaluation import check_suits, rows_of
from .optimizers import OPTIMIZERS, SCHEDULES, rates, set_rate
from .state import Progress, Quality

#: float32 numbers in the widest CPU vector.
VECTOR = 16
CHECKED = 500  # batch size for the held-out rows
#: Allowed numbers; that of "floor" ends at the learning rate.
RANGES = {
    "epochs": AT_LEAST_ONE,
    "batch": AT_LEAST_ONE,
    "learning_rate": Range(0, without_low=True),
    "weight_decay": Range(0),
    "warmup": Range(0),
    "label_smoothing": Range(0, 1, without_high=True),
    "crop": COUNT,
    "holdout": Range(0, 1, without_high=True),
    "seed": SEED,
}


@dataclass(frozen=True)
class TrainSettings:
    """What decides the numbers of a training, besides model, images and rows. RECIPES has sets of these.

    Label smoothing gives probability to classes that a parent never sees, which keeps their logits low and similar; this makes
    the logits of parents trained on different classes comparable.

    Attributes:
        optimizer: an entry of OPTIMIZERS.
        schedule: an entry of SCHEDULES, after a linear warm-up over `warmup` epochs (at most half of all).
        floor: the lowest rate of the schedule (eta_min).
        crop: black padding before a random crop to the original size.
        flip, policy, cutmix: random flips, an AutoAugment policy (cifar10, imagenet or svhn), see `batches.cutmix`.
        holdout: share of each class's rows held out to choose the epoch; 0: keep the last epoch.
        precision: "float32", "bfloat16" (autocast; weights stay float32), or "auto": bfloat16 if the device has fast
            bfloat16 products.
        seed: for the held-out rows, the order, the augmentation and the model's own draws; not the initial weights.
    Raises:
        ValueError: a value out of range, or an unknown name; it says what may be.
    """

    epochs: int = 20
    batch: int = 64
    optimizer: str = "adamw"
    learning_rate: float = 3e-3
    weight_decay: float = 1e-4
    schedule: str = "cosine"
    warmup: float = 2.0
    floor: float = 0.0
    label_smoothing: float = 0.1
    crop: int = 0
    flip: bool = False
    policy: str | None = None
    cutmix: bool = False
    holdout: float = 0.1
    precision: str = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, numbers in {**RANGES, "floor": Range(0, self.learning_rate)}.items():
            if not numbers.holds(value := getattr(self, name)):
                raise ValueError(f"{name} is {value!r}. Use {numbers}.")
        known_name(OPTIMIZERS, self.optimizer, "optimizer")
        known_name(SCHEDULES, self.schedule, "schedule")
        if self.policy is not None:
            known_name(POLICIES, self.policy, "AutoAugment policy")
        devices.autocast_dtype(self.precision, torch.device("cpu"))


def train(
    model: nn.Module,
    images: Images,
    rows: Tensor | None = None,
    *,
    state: str | Path | None = None,
    monitor: Monitor | None = None,
    device: str | torch.device | None = None,
    budget: int = devices.PIXEL_BYTES,
    **settings: Any,
) -> list[dict[str, Any]]:
    """Train a classifier in place, restore its best epoch on held-out rows (the start is epoch 0), and leave it in eval
    mode.

    Args:
        rows: train on these rows only (default: all).
        state: a file for the state after each epoch, by `torch.save`. If it exists, training resumes from it; on the
            CPU the result is bitwise that of an uninterrupted training.
        device: default: the model's. The model is moved back afterwards.
        budget: bytes of pixels to keep on the device; if they do not fit, they are decoded again for each epoch.
        settings: epochs=20, batch=64, learning_rate=3e-3 and the other fields of `TrainSettings`.
    Returns:
        One dict per epoch: epoch, epochs, loss, accuracy (% on the held-out rows, else None), best (the best epoch
        so far). The first is the start, epoch 0, whose loss is None. The last one's best is the restored epoch; 0
        means that no epoch beat the start. Without held-out rows the last epoch is best.
        The monitor first gets an event "history", whose entries are the start or the epochs in the state; then an
        event "epoch" per further epoch, and an event "batch" per step.
    Raises:
        ValueError: no rows, a model that does not suit the images, settings out of range, a state that is damaged
            or was written with other settings, or a loss that is not finite.
    """
    to = TrainSettings(**settings)
    rows = rows_of(images, rows)
    check_suits(model, images)
    # For networks with several outputs; shares the model's weights.
    whole, model = model, as_classifier(model, images.inputs([0]))
    monitor, device = monitor or Monitor(), devices.pick(device) if device else devices.of(model)
    reduced = devices.autocast_dtype(to.precision, device) == torch.bfloat16
    autocast = partial(torch.autocast, device.type, dtype=torch.bfloat16, enabled=reduced)
    state = Path(state) if state else None
    facts = _facts(to, model, images, rows, reduced) if state else {}
    draw = torch.Generator().manual_seed(to.seed)
    is_held_out = held_out_mask(images.labels[rows], to.holdout, draw)
    fitted, held_out = (~is_held_out).nonzero().flatten(), is_held_out.nonzero().flatten()
    total = steps_in(len(fitted), to.batch)
    rate = rates(to.schedule, total, to.epochs, warmup=to.warmup, peak=to.learning_rate, floor=to.floor)
    augment = partial(augmented, to.crop, to.flip, to.policy)
    with _on_device(model, device, images) as layout, _seeded(device, to.seed) as generators:
        optimizer = find(OPTIMIZERS, to.optimizer, "optimizer")(model.parameters(), to.learning_rate, to.weight_decay)
        progress = Progress(model, optimizer, [draw, *generators])
        if state and state.exists():
            states.restore(state, facts, progress)
        source = PixelSource(images, rows, device, budget)

        def loss_of(inputs: Tensor, *labels: Tensor) -> Tensor:
            with autocast():
                return _error(model(inputs), to.label_smoothing, *labels)

        step = stepping(loss_of, optimizer)

        def note(epoch: int, loss: float | None) -> None:
            with autocast():
                progress.add(epoch, to.epochs, loss, _quality(model, source, held_out, layout, monitor))

        if not progress.history:
            note(0, None)
        entries = [dict(entry) for entry in progress.history]
        monitor.emit("history", epoch=progress.epoch, epochs=to.epochs, entries=entries)
        for epoch in range(progress.epoch + 1, to.epochs + 1):

            def before_step(index: int, done: int = (epoch - 1) * total) -> None:
                set_rate(optimizer, rate(done + index))

            def after_step(index: int, epoch: int = epoch) -> None:
                monitor.emit("batch", index=index + 1, total=total, epoch=epoch, epochs=to.epochs)
                monitor.check()

            model.train()
            batches = epoch_of(source, fitted, to.batch, augment, draw, layout, to.cutmix)
            loss = one_epoch(batches, step, before_step=before_step, after_step=after_step)
            if not isfinite(loss):
                raise ValueError(f"training diverged in epoch {epoch}: use a learning rate below {to.learning_rate}.")
            note(epoch, loss)
            if state:
                states.write(state, facts, progress)
            monitor.emit("epoch", **progress.history[-1])
        if progress.best.state:
            progress.best.restore()
    whole.eval()
    return progress.history


def _facts(to: TrainSettings, model: nn.Module, images: Images, rows: Tensor, reduced: bool) -> dict[str, Any]:
    """What a state must have been written with to be resumed."""
    return {
        "data": f"{images.name} {images.split}",
        "mean": list(images.mean),
        "std": list(images.std),
        "training_rows": states.digest({"rows": rows}),
        "images": images.digest(),
        "initial_weights": states.digest(model.state_dict()),
        **vars(to),
        "precision": "bfloat16" if reduced else "float32",
    }


def held_out_mask(labels: Tensor, part: float, draw: torch.Generator) -> Tensor:
    """(n,) bool: a random share of every class, leaving at least one row to train on.

    Args:
        draw: to repeat the draw of `train`, a generator newly seeded with its seed.
    """
    mask = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        rows = (labels == label).nonzero().flatten()
        count = min(round(part * len(rows)), len(rows) - 1)
        mask[rows[torch.randperm(len(rows), generator=draw)[:count]]] = True
    return mask


@contextmanager
def _on_device(model: nn.Module, device: torch.device, images: Images) -> Iterator[torch.memory_format]:
    """Move the model to a device, channels last if it has convolutions, and back at the end, in eval mode."""
    origin = devices.of(model)
    try:
        model.to(device)
        yield _lay_out(model, images, device)
    finally:
        model.to(origin).to(memory_format=torch.contiguous_format).eval()


@torch.no_grad()
def _lay_out(model: nn.Module, images: Images, device: torch.device) -> torch.memory_format:
    """Use channels last if there are convolutions (VGG11 at half width on a CPU: 13 to 16 % faster) and the model's
    code allows it."""
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
    """Whether the backward pass may write out of bounds: a bug in oneDNN for AVX2 with one thread, channels last, a strided
    1 x 1 kernel and fewer channels than a vector holds (the skips of narrow ResNets)."""
    return set(layer.kernel_size) == {1} and max(layer.stride) > 1 and layer.in_channels < VECTOR


@contextmanager
def _seeded(device: torch.device, seed: int) -> Iterator[list[torch.Generator]]:
    """Seed the generators that the model itself uses (dropout), and restore them afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        generators = [torch.default_generator]
        if device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            generators.append(torch.cuda.default_generators[index])
        for generator in generators:
            generator.manual_seed(seed)
        yield generators


def _error(logits: Tensor, smoothing: float, labels: Tensor, others: Tensor | None = None, *shares: Tensor) -> Tensor:
    """Cross entropy; after CutMix with both labels, weighted by their shares of the image."""
    loss = partial(cross_entropy, logits.float(), label_smoothing=smoothing)
    if others is None:
        return loss(labels)
    ((kept, pasted),) = shares
    return kept * loss(labels) + pasted * loss(others)


@torch.no_grad()
def _quality(
    model: nn.Module, source: PixelSource, positions: Tensor, layout: torch.memory_format, monitor: Monitor
) -> Quality | None:
    """(accuracy in %, minus the loss) on these positions of the source; the monitor may cancel before each batch."""
    if not len(positions):
        return None
    model.eval()
    measured = []
    for pixels, labels in source.read(positions.split(CHECKED)):
        monitor.check()
        measured.append((model(source.images.normalise(pixels).contiguous(memory_format=layout)).float(), labels))
    logits, labels = (torch.cat(parts) for parts in zip(*measured, strict=True))
    accuracy = 100 * (logits.argmax(1) == labels).double().mean().item()
    return accuracy, -cross_entropy(logits, labels).item()
