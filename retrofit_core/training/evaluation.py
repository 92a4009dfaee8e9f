"""Evaluate classifiers (accuracy, also per class, loss, calibration), and build ensembles."""

import base64
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ..data import Images, channel_advice
from ..networks.composites import COMBINATIONS, Ensemble
from ..networks.copies import evaluating
from ..networks.outputs import are_probabilities, check_class_scores, logits_in, logs, say_probabilities
from ..system import device as devices
from ..system.labels import as_labels, check_classes
from ..system.monitor import Monitor
from ..system.registry import first_line, known_name

#: Advice if outputs are not class scores.
NO_ACCURACY = "Measure such networks by a loss of your own."
#: Images that run together on a GPU, and bytes of their normalised pixels; on a CPU larger batches are slower.
LARGE_BATCH, BATCH_BYTES, SMALL_BATCH = 10_000, 128 * 2**20, 500
BINS = 15  # confidence bins of the calibration error, as in Guo et al. 2017


def evaluate(
    model: nn.Module | Callable[[Tensor], Tensor],
    images: Images,
    batch: int | None = None,
    *,
    rows: Tensor | None = None,
    monitor: Monitor | None = None,
) -> dict[str, Any]:
    """Measure a classifier on a split, as it runs here: with the precision of products and the autocast that surround the call.

    Args:
        model: images (n, C, H, W) -> logits or log-probabilities (n, classes), or outputs that contain them, see
            `outputs`; a module runs in eval mode on its own device.
        batch: images that run together (default: 500 on a CPU, as many as fit on a GPU).
        rows: measure on these rows only (default: all).
    Returns:
        accuracy (%), per_class (%, None for a class without samples), loss (mean cross entropy),
        calibration_error (0..1, see `calibration_error`), samples, knows (which images are right, see `as_bits`). Ready for JSON.
    Raises:
        ValueError: the model does not take these images, has another number of classes, or returns NaN, or
            a label is no class.
    """
    rows = rows_of(images, rows)
    return measured(scores(model, images, batch, rows=rows, monitor=monitor), images.labels[rows], len(images.classes))


def evaluate_parents(
    models: Sequence[nn.Module],
    images: Images,
    *,
    rows: Tensor | None = None,
    device: str | torch.device = "cpu",
    monitor: Monitor | None = None,
) -> dict[str, dict[str, Any]]:
    """`evaluate` for "parent 0", "parent 1", ... and their "ensemble", running each network once.

    Args:
        device: where to measure copies; the networks themselves are not moved.
    Raises:
        ValueError: as in `evaluate`.
    """
    rows = rows_of(images, rows)
    outputs = [scores(devices.on_device(model, device), images, rows=rows, monitor=monitor) for model in models]
    named = {f"parent {index}": logits for index, logits in enumerate(outputs)}
    named["ensemble"] = COMBINATIONS["softmax"](torch.stack(outputs))
    return {name: measured(logits, images.labels[rows], len(images.classes)) for name, logits in named.items()}


def rows_of(images: Images, rows: object = None) -> Tensor:
    """Row numbers (n,) int64 of a split; None means all.

    Raises:
        ValueError: not `Images`, no rows, or rows outside the split.
    """
    if not isinstance(images, Images):
        raise ValueError(
            f"the images are {type(images).__name__}, not retrofit_core.data.Images. Read them with "
            "retrofit_core.data.load(FOLDER, split), or make them of a tensor of pixels: "
            "retrofit_core.data.Images(pixels.__getitem__, labels, shape, classes, name, mean, std)."
        )
    rows = torch.arange(len(images)) if rows is None else torch.as_tensor(rows, dtype=torch.int64)
    if not len(rows):
        raise ValueError(f"no rows of data set {images.name!r} are given. Give at least one.")
    low, high = int(rows.min()), int(rows.max())
    if low < 0 or high >= len(images):
        raise ValueError(
            f"rows {low}..{high} were requested from data set {images.name!r}, whose {images.split} split has rows "
            f"0..{len(images) - 1}. Give rows of this split."
        )
    return rows


def check_suits(model: nn.Module, images: Images) -> None:
    """Refuse a network that cannot be trained or measured on a data set, by running one image.

    Raises:
        ValueError: as in `evaluate`.
    """
    scores(model, images, rows=torch.zeros(1, dtype=torch.int64))


def measured(logits: Tensor, labels: Tensor, classes: int) -> dict[str, Any]:
    """The result of `evaluate` from outputs (n, classes) and labels (n,) of any integer type.

    Raises:
        ValueError: labels that are no classes.
    """
    labels = as_labels(labels)
    check_classes(labels, classes, "the images", "the data set")
    correct = (logits.argmax(1) == labels).double()
    counts = torch.bincount(labels, minlength=classes)
    hits = torch.bincount(labels, weights=correct, minlength=classes)
    return {
        "accuracy": 100 * correct.mean().item(),
        "per_class": [100 * hit / n if n else None for hit, n in zip(hits.tolist(), counts.tolist(), strict=True)],
        "loss": cross_entropy(logits.double(), labels).item(),
        "calibration_error": calibration_error(logits, labels),
        "samples": len(labels),
        "knows": as_bits(correct.bool().numpy()),
    }


def as_bits(known: NDArray[np.bool_]) -> str:
    """Encode (n,) bool, the images that a network knows, as a short string; `answers.from_bits` reads it."""
    return base64.b64encode(np.packbits(known).tobytes()).decode()


def scores(
    model: nn.Module | Callable[[Tensor], Tensor],
    images: Images,
    batch: int | None = None,
    *,
    rows: Tensor | None = None,
    monitor: Monitor | None = None,
) -> Tensor:
    """The model's outputs on the given rows (default: all), (n, classes) float32 on the CPU.

    Raises:
        ValueError: as in `evaluate`.
    """
    rows = rows_of(images, rows)
    device = devices.of(model) if isinstance(model, nn.Module) else torch.device("cpu")
    size = batch or _batch_on(device, images)
    try:
        with evaluating(*[model] if isinstance(model, nn.Module) else []), torch.inference_mode():
            outputs = [
                _outputs(model, images, chunk, device)
                for chunk in (monitor or Monitor()).each("evaluate", rows.split(size))
            ]
    except torch.OutOfMemoryError:
        if batch is not None or size <= SMALL_BATCH:
            raise
        return scores(model, images, max(SMALL_BATCH, size // 4), rows=rows, monitor=monitor)
    # Clone outside inference mode: the caller may need gradients.
    return as_logits(torch.cat(outputs).clone(), f"data set {images.name!r}")


class NotANumber(ValueError):
    """A network gives NaN or infinity."""


def as_logits(outputs: Tensor, samples: str) -> Tensor:
    """A network's outputs for samples, (n, ...), of which probabilities become their logarithms.

    Raises:
        NotANumber: they hold NaN or infinity; that of a masked class is negative, and stays.
    """
    if (outputs.isnan() | (outputs == torch.inf)).any():
        raise NotANumber(f"the model gives NaN or infinity on {samples}: its weights or inputs are damaged.")
    if not are_probabilities(outputs):
        return outputs
    say_probabilities("the model")
    return logs(outputs)


def _batch_on(device: torch.device, images: Images) -> int:
    """Images that run together on a device."""
    fitting = BATCH_BYTES // (4 * math.prod(images.shape)) if device.type == "cuda" else 0
    return min(LARGE_BATCH, max(SMALL_BATCH, fitting))


def calibration_error(logits: Tensor, labels: Tensor, bins: int = BINS) -> float:
    """Expected calibration error (Guo et al. 2017), 0..1: mean |accuracy - confidence| over equal-width bins of
    confidence.

    Args:
        logits: (n, classes).
        labels: (n,) int64.
    """
    confidence, predicted = logits.double().softmax(1).max(1)  # (n,), (n,)
    gap = (predicted == labels).double() - confidence
    # Bins are (low, high]: confidence 1 belongs to the last one.
    bin_of = (confidence * bins).ceil().long().clamp(1, bins) - 1
    gaps = torch.zeros(bins, dtype=torch.float64).index_add(0, bin_of.cpu(), gap.cpu())
    return (gaps.abs().sum() / len(labels)).item()


def _outputs(model: Callable[[Tensor], Tensor], images: Images, rows: Tensor, device: torch.device) -> Tensor:
    """Run one batch; explains why a model does not suit the data."""
    inputs = images.normalise(images.pixels(rows).to(device))
    weights = next(model.parameters(), inputs).dtype if isinstance(model, nn.Module) else inputs.dtype
    if weights != inputs.dtype:
        raise ValueError(
            f"the model's weights are {weights}, images are {inputs.dtype}. Convert it with model.float()."
        )
    try:
        outputs = logits_in(model(inputs), "the model")
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        shape = "x".join(map(str, images.shape))
        raise ValueError(
            f"the model does not take the images of data set {images.name!r} ({shape}): {first_line(error)}."
            f"{channel_advice(images)}"
        ) from error
    check_class_scores(outputs.shape[1:], "an accuracy", NO_ACCURACY)
    if outputs.shape != (len(rows), len(images.classes)):
        raise ValueError(
            f"the network has {outputs.shape[1]} classes, data set {images.name!r} has {len(images.classes)}: its "
            "outputs need one column for each class. Use a network with as many classes, or other data."
        )
    return outputs.float().cpu()


def ensemble(models: Sequence[nn.Module], combine: str = "softmax") -> nn.Module:
    """Combine classifiers into one.

    Args:
        combine: "softmax" (the paper's "average the predictions"; outputs the log of the mean probabilities, so
            that softmax and cross entropy are correct), or "logits".
    Raises:
        ValueError: no models, or an unknown combination.
    """
    if not models:
        raise ValueError("an ensemble needs at least one model.")
    return Ensemble(models, known_name(COMBINATIONS, combine, "combination of an ensemble"))
