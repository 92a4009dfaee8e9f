"""Batches for training: pixels held on the device or decoded ahead, augmented there in blocks, mixed by CutMix."""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from ..data import Images
from ..data.augment import augmented

#: Bytes of pixels that are augmented together: AutoAugment costs far less an image in large blocks than in batches.
BLOCK_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Augmentation:
    """What is done to the training images, in this order."""

    crop: int = 0
    """black padding before a random crop of the old size"""
    flip: bool = False
    policy: str | None = None
    """of AutoAugment: cifar10, imagenet or svhn"""
    cutmix: bool = False
    """see `cutmix`"""

    def __call__(self, pixels: Tensor, draw: torch.Generator) -> Tensor:
        """(n, C, H, W) uint8 -> the same shape, with draws of its own for each image; CutMix comes later."""
        return augmented(pixels, self.crop, self.flip, self.policy, draw)


class PixelSource:
    """Pixels and labels of some rows: read once if they fit into `budget` bytes, else again whenever they are used.

    What does not fit is decoded one block ahead by a thread, while the device is busy with the block before.
    """

    def __init__(self, images: Images, rows: Tensor, device: torch.device, budget: int) -> None:
        self.images, self.rows, self.device = images, rows, device
        self.bytes_per_image = math.prod(images.shape)
        self.held = images.pixels(rows).to(device) if len(rows) * self.bytes_per_image <= budget else None
        self.labels = images.labels[rows].to(device)

    def read(self, chunks: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Pixels (n, C, H, W) uint8 and labels (n,) on the device for each chunk of positions in `rows`."""
        if self.held is not None:
            for chunk in chunks:
                positions = chunk.to(self.device)
                yield self.held[positions], self.labels[positions]
            return
        with ThreadPoolExecutor(1, "decode") as pool:
            pending = [pool.submit(self.images.pixels, self.rows[chunk]) for chunk in chunks[:1]]
            for chunk, following in zip(chunks, [*chunks[1:], None], strict=True):
                pixels = pending.pop().result()
                if following is not None:
                    pending.append(pool.submit(self.images.pixels, self.rows[following]))
                yield pixels.to(self.device), self.labels[chunk.to(self.device)]


@dataclass(frozen=True)
class Batch:
    inputs: Tensor
    """(n, C, H, W) float32, normalised"""
    labels: Tensor
    """(n,)"""
    others: Tensor
    """(n,) labels of what CutMix pasted in"""
    share: float
    """part of the image that `labels` speak of; 1 without CutMix"""

    def __len__(self) -> int:
        return len(self.labels)


def steps_in(rows: int, batch: int) -> int:
    """Batches of an epoch; a last batch of a single image is left out (BatchNorm cannot use it)."""
    return rows // batch + (rows % batch > 1 or rows == 1 < batch)


def epoch_of(
    source: PixelSource,
    positions: Tensor,
    batch: int,
    augment: Augmentation,
    draw: torch.Generator,
    layout: torch.memory_format,
) -> Iterator[Batch]:
    """One pass over these positions of the source, in an order drawn anew."""
    block = batch * max(1, BLOCK_BYTES // (batch * source.bytes_per_image))
    order = positions[torch.randperm(len(positions), generator=draw)]
    left = steps_in(len(positions), batch)
    for pixels, labels in source.read(order.split(block)):
        inputs = source.images.normalise(augment(pixels, draw)).contiguous(memory_format=layout)
        for x, y in zip(inputs.split(batch), labels.split(batch), strict=True):
            if not left:
                return
            left -= 1
            yield cutmix(x, y, draw) if augment.cutmix else Batch(x, y, y, 1.0)


def cutmix(inputs: Tensor, labels: Tensor, draw: torch.Generator) -> Batch:
    """Paste one box of every image's neighbour in a random order into it, in place (CutMix, Yun et al. 2019, beta 1).

    The box's area is a uniform part of the image (Beta(1, 1)), its centre uniform; what lies outside the image is cut
    off, and `share` is what then remains of the first image.
    """
    height, width = inputs.shape[2:]
    kept, across, down = torch.rand(3, generator=draw).tolist()
    side = math.sqrt(1 - kept)
    top, bottom = _interval(down, side, height)
    left, right = _interval(across, side, width)
    other = torch.randperm(len(inputs), generator=draw).to(inputs.device)
    # Indexing copies the boxes before any is overwritten.
    inputs[:, :, top:bottom, left:right] = inputs[:, :, top:bottom, left:right][other]
    share = 1 - (bottom - top) * (right - left) / (height * width)
    return Batch(inputs, labels, labels[other], share)


def _interval(centre: float, part: float, size: int) -> tuple[int, int]:
    """An interval of about part * size pixels around the centre (0..1), clipped to 0..size."""
    length, middle = int(part * size), int(centre * size)
    return max(0, middle - length // 2), min(size, middle - length // 2 + length)
