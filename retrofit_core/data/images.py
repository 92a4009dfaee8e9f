"""Images: a labelled split whose pixels are read on demand, row by row."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..system.files import digest_of
from ..system.labels import as_labels
from ..system.monitor import Monitor

MEASURED = 2000  # most images to measure an unknown normalisation on
CHECKED = 256  # images to read at once when checking
MOST_CLASSES = 100_000
Read = Callable[[Tensor], Tensor]  # row numbers (n,) int64 -> pixels (n, C, H, W) uint8
Constants = tuple[tuple[float, ...], tuple[float, ...]]  # mean and standard deviation per channel
Content = tuple[Read, Tensor, tuple[int, int, int]]  # reader, labels (N,) int64, shape (C, H, W)


def in_memory(pixels: Tensor, labels: Tensor) -> Content:
    """Reader, labels and shape for pixels (N, C, H, W) uint8 in memory."""
    _, channels, height, width = pixels.shape
    return pixels.__getitem__, labels, (channels, height, width)


def counted(labels: np.ndarray, where: str) -> Tensor:
    """Convert class numbers (N,) of any integer type to int64.

    Raises:
        ValueError: negative, or MOST_CLASSES or larger.
    """
    if len(wrong := np.flatnonzero((labels < 0) | (labels >= MOST_CLASSES))):
        raise ValueError(f"row {wrong[0]} of {where} has the label {labels[wrong[0]]}: labels count from 0.")
    return torch.from_numpy(labels.astype(np.int64))


def per_channel(values: tuple[float, ...], channels: int, what: str, name: str) -> tuple[float, ...]:
    """One value per channel; a single value serves all channels.

    Raises:
        ValueError: neither one value nor one per channel, or a value that is not finite (for std: and positive).
    """
    values = tuple(float(value) for value in values)
    if not all(isfinite(value) and (what != "std" or value > 0) for value in values):
        allowed = "finite numbers above zero" if what == "std" else "finite numbers"
        raise ValueError(f"{what} of data set {name!r} is {values}: give {allowed} with --{what}.")
    if len(values) not in (1, channels):
        raise ValueError(
            f"{what} of data set {name!r} has {len(values)} values, but its images have {channels} "
            f"channel(s): give one value or {channels} with --{what}."
        )
    return values if len(values) == channels else values * channels


def normalisation(read: Read, count: int, channels: int) -> Constants:
    """Mean and standard deviation of the pixels of a split, scaled to 0..1, to four digits.

    Uses at most MEASURED images, drawn with a fixed seed.

    Args:
        count: number of images.
        channels: channels per image.
    """
    rows = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:MEASURED].sort().values
    sums, squares, pixels = (torch.zeros(channels, dtype=torch.float64) for _ in range(3))
    for chunk in rows.split(100):
        values = read(chunk).double().flatten(2) / 255  # (n, C, H * W)
        sums, squares = sums + values.sum((0, 2)), squares + values.square().sum((0, 2))
        pixels += values.shape[0] * values.shape[2]
    mean = sums / pixels
    std = (squares / pixels - mean.square()).clamp_min(0).sqrt()
    std = torch.where(std < 1e-4, torch.ones_like(std), std)  # a constant channel
    return tuple(round(value, 4) for value in mean.tolist()), tuple(round(value, 4) for value in std.tolist())


@dataclass(frozen=True, eq=False)
class Images:
    """A labelled split of a data set.

    Attributes:
        read: row numbers (n,) int64 -> pixels (n, C, H, W) uint8; decodes encoded images of these rows only.
        labels: (N,) integers of any type, stored as int64.
        shape: (C, H, W).
        classes: class names in label order.
        mean, std: per channel, for pixels scaled to 0..1; a single value serves all channels.
        mirrors: a flipped image belongs to the same class (not so for digits).
        files: files and folders that the split was read from; empty for images in memory only.
    """

    read: Read = field(repr=False)
    labels: Tensor = field(repr=False)
    shape: tuple[int, int, int]
    classes: tuple[str, ...] = field(repr=False)
    name: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    split: str = "train"
    mirrors: bool = True
    files: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        labels = as_labels(self.labels)
        if labels.dtype != torch.int64:
            raise ValueError(
                f"the labels of data set {self.name!r} are {labels.dtype}, but classes are whole numbers. Pass "
                "labels.long()."
            )
        object.__setattr__(self, "labels", labels)
        for what in ("mean", "std"):
            object.__setattr__(self, what, per_channel(getattr(self, what), self.shape[0], what, self.name))

    def __len__(self) -> int:
        return len(self.labels)

    def digest(self) -> str:
        """Digest of the files (see `files.digest_of`), or of pixels and labels if there are none."""
        if self.files:
            return digest_of(self.files)
        whole = hashlib.sha256()
        for rows in torch.arange(len(self)).split(10_000):
            whole.update(self.pixels(rows).contiguous().numpy().data)
        whole.update(self.labels.contiguous().numpy().data)
        return whole.hexdigest()

    @property
    def images(self) -> Tensor:
        """All pixels, (N, C, H, W) uint8."""
        return self.pixels()

    def pixels(self, rows: Tensor | Sequence[int] | None = None) -> Tensor:
        """Pixels of the given rows (default: all), (n, C, H, W) uint8.

        Raises:
            ValueError: a row number outside 0..N-1, or an undecodable image.
        """
        rows = torch.arange(len(self)) if rows is None else torch.as_tensor(rows, dtype=torch.int64).cpu()
        if len(rows) and not (int(rows.min()) >= 0 and int(rows.max()) < len(self)):
            raise ValueError(
                f"rows {int(rows.min())}..{int(rows.max())} were requested from data set {self.name!r}, whose "
                f"{self.split} split has rows 0..{len(self) - 1}: was the splits file made for another data "
                "set?"
            )
        return self.read(rows)

    def normalise(self, pixels: Tensor) -> Tensor:
        """(n, C, H, W) uint8 -> float32, scaled to 0..1, minus mean, divided by std, on the same device."""
        mean = torch.tensor(self.mean, device=pixels.device).view(-1, 1, 1)
        std = torch.tensor(self.std, device=pixels.device).view(-1, 1, 1)
        return (pixels.to(torch.float32) / 255 - mean) / std

    def inputs(self, rows: Tensor | Sequence[int] | None = None) -> Tensor:
        """Normalised images of the given rows (default: all), (n, C, H, W) float32."""
        return self.normalise(self.pixels(rows))


def check_images(images: Images, rows: Tensor | None = None, monitor: Monitor | None = None) -> None:
    """Decode images before long work, to find damaged ones first.

    Takes one pass over the images, and fills the cache if they fit.

    Args:
        rows: of the split (default: all). Images in memory are not checked.
    Raises:
        ValueError: names the first unusable image, by file or row.
    """
    if not images.files:
        return
    monitor = monitor or Monitor()
    monitor.emit("phase", name="checking images")
    rows = torch.arange(len(images)) if rows is None else rows
    for chunk in monitor.each("step", rows.split(CHECKED)):
        images.pixels(chunk)
