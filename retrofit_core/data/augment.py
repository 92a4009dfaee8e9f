"""Random crops, flips and AutoAugment for batches of uint8 pixels (n, C, H, W), on any device.

Each image gets its own draw from the generator, so equal seeds give equal pixels. A CPU generator works with pixels on any
device.
"""

from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..system.extras import require
from ..system.registry import find
from .images import Images

POLICIES = {name: name for name in ("cifar10", "imagenet", "svhn")}  # the values of torchvision's AutoAugmentPolicy
FILL = 128  # grey outside the image, as in the paper's code for AutoAugment


def crop(pixels: Tensor, padding: int, generator: torch.Generator) -> Tensor:
    """Shift each image by its own offset of up to `padding` pixels, filling with black.

    Equals torchvision's RandomCrop(size, padding) drawn per image.
    """
    if not padding:
        return pixels
    n, _, height, width = pixels.shape
    draw = torch.randint(2 * padding + 1, (2, n), generator=generator, device=generator.device)
    down, right = draw.to(pixels.device)  # (n,) each
    padded = pad(pixels, (padding,) * 4)  # (n, C, H + 2 padding, W + 2 padding)
    # A view of all windows (n, C, 2 padding + 1, 2 padding + 1, H, W); only the chosen ones are copied.
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    return windows[torch.arange(n, device=pixels.device), :, down, right]


def flip(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Flip each image horizontally with probability 1/2."""
    mirrored = torch.rand(len(pixels), 1, 1, 1, generator=generator, device=generator.device) < 0.5
    return torch.where(mirrored.to(pixels.device), pixels.flip(-1), pixels)


def auto_augment(pixels: Tensor, policy: str, generator: torch.Generator) -> Tensor:
    """torchvision's AutoAugment (Cubuk et al. 2019) with a separate sub-policy, probabilities and signs per image.

    Images that drew the same operation are transformed together, so large batches (thousands) cost far less per image.

    Args:
        policy: "cifar10", "imagenet" or "svhn".
    Raises:
        ValueError: unknown policy, or images with neither 1 nor 3 channels.
    """
    name = find(POLICIES, policy, "AutoAugment policy")
    if pixels.shape[1] not in (1, 3):
        raise ValueError(f"AutoAugment takes grey or RGB images, these have {pixels.shape[1]} channels: switch it off.")
    # Imported here, because it takes a second. torchvision draws once per call for a whole batch; below are its
    # tables and operations with our own draws.
    require("torchvision", "data")
    from torchvision.transforms import AutoAugmentPolicy, v2

    table = v2.AutoAugment(AutoAugmentPolicy(name), fill=FILL)
    n, device = len(pixels), generator.device
    chosen = torch.randint(len(table._policies), (n,), generator=generator, device=device).cpu()
    chance, sign = torch.rand(2, 2, n, generator=generator, device=device).cpu()  # (2 operations, n) each
    result = pixels.clone()
    for step in range(2):
        groups: dict[tuple[str, float], list[Tensor]] = {}
        for index, policies in enumerate(table._policies):
            operation, probability, level = policies[step]
            rows = ((chosen == index) & (chance[step] <= probability)).nonzero().flatten()
            values, signed = table._AUGMENTATION_SPACE[operation]
            values = values(10, *pixels.shape[2:])  # of the ten levels, or None
            value = 0.0 if values is None or level is None else float(values[level])
            negative = (sign[step][rows] <= 0.5) & signed
            groups.setdefault((operation, value), []).append(rows[~negative])
            groups.setdefault((operation, -value), []).append(rows[negative])
        for (operation, value), parts in groups.items():
            rows = torch.cat(parts).to(pixels.device)
            if len(rows):
                moved = table._apply_image_or_video_transform(
                    result[rows], operation, value, interpolation=table.interpolation, fill=table._fill
                )
                result[rows] = cast(Tensor, moved)
    return result


def augmented(padding: int, mirror: bool, policy: str | None, pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Random crop, optional flip, AutoAugment if a policy is given: (n, C, H, W) uint8, same shape."""
    pixels = crop(pixels, padding, generator)
    if mirror:
        pixels = flip(pixels, generator)
    return auto_augment(pixels, policy, generator) if policy else pixels


def copies(images: Images, rows: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Images followed by `count` copies of each, cropped and flipped (if the data set allows it) as in training: pixels
    (n + n count, C, H, W) uint8 and labels."""
    pixels, labels = images.pixels(rows), images.labels[rows]
    padding = usual_padding(images.shape)
    moved = [augmented(padding, images.mirrors, None, pixels, generator) for _ in range(count)]
    return torch.cat([pixels, *moved]), labels.repeat(1 + count)


def usual_padding(shape: tuple[int, int, int]) -> int:
    """4 pixels, as in the paper's recipe for 32 x 32 and 64 x 64 pixels; an eighth of smaller images."""
    return min(4, min(shape[1:]) // 8)
