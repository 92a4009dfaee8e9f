"""Training batches: pixels kept on the device or decoded, augmented there in blocks, mixed by CutMix."""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from ..data import Images

#: Bytes of pixels to augment together: AutoAugment costs far less per image in large blocks than in batches.
BLOCK_BYTES = 32 * 2**20


class PixelSource:
    """Pixels and labels of some rows, read once if they fit into `budget` bytes, else on every use."""

    def __init__(self, images: Images, rows: Tensor, device: torch.device, budget: int) -> None:
        self.images, self.rows, self.device = images, rows, device
        self.bytes_per_image = math.prod(images.shape)
        self.held = images.pixels(rows).to(device) if len(rows) * self.bytes_per_image <= budget else None
        self.labels = images.labels[rows].to(device)

    def read(self, chunks: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Pixels (n, C, H, W) uint8 and labels (n,) on the device for each chunk of positions in `rows`."""
        for chunk in chunks:
            positions = chunk.to(self.device)
            pixels = self.images.pixels(self.rows[chunk]).to(self.device) if self.held is None else self.held[positions]
            yield pixels, self.labels[positions]


def steps_in(rows: int, batch: int) -> int:
    """Batches per epoch; drops a last batch of one image, unless it is the only one (BatchNorm cannot use it)."""
    return rows // batch + (rows % batch > 1 or rows == 1 < batch)


def epoch_of(
    source: PixelSource,
    positions: Tensor,
    batch: int,
    augment: Callable[[Tensor, torch.Generator], Tensor],
    draw: torch.Generator,
    layout: torch.memory_format,
    mixed: bool = False,
) -> Iterator[tuple[Tensor, ...]]:
    """One pass over these positions of the source, in new random order: batches of inputs (n, C, H, W) float32, normalised, and
    labels (n,).

    Args:
        augment: pixels (n, C, H, W) uint8 and a generator -> the same shape, with separate draws per image.
        mixed: whether to mix the batches, see `cutmix`.
    """
    block = batch * max(1, BLOCK_BYTES // (batch * source.bytes_per_image))
    order = positions[torch.randperm(len(positions), generator=draw)]
    left = steps_in(len(positions), batch)
    for pixels, labels in source.read(order.split(block)):
        inputs = source.images.normalise(augment(pixels, draw)).contiguous(memory_format=layout)
        batches = list(zip(inputs.split(batch), labels.split(batch), strict=True))[:left]
        left -= len(batches)
        yield from cutmix(batches, draw) if mixed else batches


def cutmix(batches: Sequence[tuple[Tensor, Tensor]], draw: torch.Generator) -> Iterator[tuple[Tensor, ...]]:
    """Paste a box of another image into each image of some batches, in place (CutMix, Yun et al. 2019, beta 1).

    A box's area is a uniform share of the image (Beta(1, 1)), its centre is uniform, and it is clipped to the image.

    Args:
        batches: inputs (n, C, H, W) and labels (n,).
    Returns:
        For each batch inputs, labels, (n,) labels of the pasted boxes, and (2,) shares of the image that either labels describe.
    """
    boxes: list[tuple[slice, slice]] = []
    order: list[Tensor] = []
    shares: list[list[float]] = []
    for inputs, labels in batches:
        height, width = inputs.shape[-2:]
        kept, across, down = torch.rand(3, generator=draw).tolist()
        side = math.sqrt(1 - kept)
        rows, columns = _interval(down, side, height), _interval(across, side, width)
        pasted = (rows.stop - rows.start) * (columns.stop - columns.start) / (height * width)
        boxes.append((rows, columns))
        order.append(torch.randperm(len(labels), generator=draw))
        shares.append([1 - pasted, pasted])
    if not batches:
        return
    # All are moved at once: a GPU would wait for each.
    device = batches[0][0].device
    others = torch.cat(order).to(device).split(list(map(len, order)))
    for (inputs, labels), box, other, share in zip(
        batches, boxes, others, torch.tensor(shares).to(device), strict=True
    ):
        # Indexing copies all boxes before any is overwritten.
        inputs[:, :, *box] = inputs[:, :, *box][other]
        yield inputs, labels, labels[other], share


def _interval(centre: float, part: float, size: int) -> slice:
    """An interval of about part * size pixels around the centre (0..1), clipped to 0..size."""
    length, middle = int(part * size), int(centre * size)
    return slice(max(0, middle - length // 2), min(size, middle - length // 2 + length))
