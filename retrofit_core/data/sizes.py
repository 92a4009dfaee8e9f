"""One size for all images: the usual evaluation transform, on uint8 pixels."""

from dataclasses import dataclass

from torch import Tensor

from .images import Content

LARGEST_SIDE = 4096  # largest --size
LARGEST_IMAGE = 8192 * 8192  # pixels of one image, as stored or resized


@dataclass(frozen=True)
class Fit:
    """Resize the shorter side to `resize` pixels, then keep the central `crop` x `crop` pixels."""

    resize: int
    crop: int


def fit_to(size: int | None, default: int | None = None, margin: float = 1.0) -> Fit | None:
    """The transform to `size` x `size`, else to the data set's own size; None: keep images as they are.

    Args:
        margin: ratio of the resized shorter side to the crop.
    Raises:
        ValueError: a size that is not a number of pixels from 1 to LARGEST_SIDE.
    """
    side = default if size is None else size
    if side is None:
        return None
    if isinstance(side, bool) or not isinstance(side, int) or not 1 <= side <= LARGEST_SIDE:
        raise ValueError(f"--size is the side of the images in pixels, 1 to {LARGEST_SIDE}. Found {side}.")
    return Fit(round(side * margin), side)


def fitted(pixels: Tensor, fit: Fit) -> Tensor:
    """(..., C, H, W) uint8 -> (..., C, crop, crop): torchvision's Resize and CenterCrop of tensors.

    Raises:
        ValueError: images so elongated that the result would be huge.
    """
    from torchvision.transforms.v2.functional import center_crop, resize

    height, width = pixels.shape[-2:]
    short, long = min(height, width), max(height, width)
    if fit.resize * long // short * fit.resize > LARGEST_IMAGE:
        raise ValueError(f"it is {width}x{height} pixels: far too elongated to be resized to {fit.resize}")
    pixels = resize(pixels, [fit.resize], antialias=True)
    return center_crop(pixels, [fit.crop, fit.crop])


def fitting(content: Content, fit: Fit | None) -> Content:
    """A split whose images are resized as they are read; unchanged if they already have the size."""
    read, labels, (channels, height, width) = content
    if fit is None or (height, width) == (fit.crop, fit.crop):
        return content
    return lambda rows: fitted(read(rows), fit).contiguous(), labels, (channels, fit.crop, fit.crop)
