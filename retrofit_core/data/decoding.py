"""Encoded images: open safely, decode on demand, and cache."""

import io
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..system.extras import require
from ..system.files import facts_of
from ..system.registry import first_line
from .images import Read
from .sizes import LARGEST_IMAGE, Fit, fitted

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("PNG", "JPEG", "WEBP", "BMP")  # never run Pillow's other decoders on untrusted bytes
LARGEST_FILE = 1 << 28  # bytes of one encoded image
KEPT = 1 << 30  # bytes of decoded pixels to cache
CHUNK = 256  # rows whose encoded bytes are in memory at once
THREADS = min(4, os.cpu_count() or 1)

Encoded = tuple[bytes | str, str]  # an image or its file, and its name in error messages


def on_demand(
    count: int, shape: tuple[int, int, int], fit: Fit | None, encoded: Callable[[np.ndarray], Sequence[Encoded]]
) -> Read:
    """Rows -> pixels (n, C, H, W), decoded by a few threads and cached if all fit into KEPT bytes.

    Args:
        count: number of rows.
        encoded: row numbers (n,) -> their encoded images.
    """
    fits_cache = count * int(np.prod(shape)) <= KEPT
    cache = np.empty((count if fits_cache else 0, *shape), dtype=np.uint8)  # untouched pages cost no memory
    in_cache = np.zeros(len(cache), dtype=bool)
    lock = Lock()  # several threads may have the same split

    def decode(rows: np.ndarray, pixels: np.ndarray, positions: np.ndarray) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            for start in range(0, len(rows), CHUNK):
                images = encoded(rows[start : start + CHUNK])
                images_decoded = pool.map(partial(decoded, shape=shape, fit=fit), *zip(*images, strict=True))
                pixels[positions[start : start + CHUNK]] = np.stack(list(images_decoded))

    def read(rows: Tensor) -> Tensor:
        numbers = rows.numpy()
        if not fits_cache:
            pixels = np.empty((len(numbers), *shape), dtype=np.uint8)
            decode(numbers, pixels, np.arange(len(numbers)))
            return torch.from_numpy(pixels)
        with lock:
            new = np.unique(numbers[~in_cache[numbers]])
            decode(new, cache, new)
            in_cache[new] = True
        return torch.from_numpy(cache[numbers])

    return read


def shape_of(first: Encoded, channels: int, fit: Fit | None) -> tuple[int, int, int]:
    """(C, H, W) of all images: the target size, else that of the first one.

    Raises:
        ValueError: the first image is damaged or far too large.
    """
    image = opened(*first)  # even with a given size: refuses a damaged first image at once
    return (channels, fit.crop, fit.crop) if fit else (channels, image.height, image.width)


def opened(data: bytes | str, where: str) -> "Image.Image":
    """Open an image without decoding it.

    Raises:
        ValueError: not a readable file, not an image, or more than LARGEST_IMAGE pixels by its header.
    """
    require("PIL", "data")
    from PIL import Image

    try:
        content = data
        if isinstance(content, str):
            if (size := facts_of(content).st_size) > LARGEST_FILE:
                raise ValueError(f"the file has {size} bytes, more than {LARGEST_FILE} are refused")
            content = Path(content).read_bytes()
        image = Image.open(io.BytesIO(content), formats=FORMATS)
    # Pillow's decoders raise anything on damaged input; its size check is a warning, which may be an error.
    except Exception as error:
        raise ValueError(f"{where} cannot be decoded as an image: {first_line(error)}") from error
    if image.width * image.height > LARGEST_IMAGE:
        raise ValueError(f"{where} is {image.width}x{image.height} pixels: more than {LARGEST_IMAGE} are refused.")
    return image


def decoded(data: bytes | str, where: str, shape: tuple[int, int, int], fit: Fit | None) -> np.ndarray:
    """Decode one image to (C, H, W) uint8, after checking its size.

    Raises:
        ValueError: damaged, far too large, or of a different size than row 0 without a `fit`.
    """
    channels, height, width = shape
    image = opened(data, where)
    if fit is None and image.size != (width, height):
        raise ValueError(
            f"{where} is {image.width}x{image.height} pixels, but row 0 is {width}x{height}: "
            "give one size for all images with --size."
        )
    try:
        pixels = _converted(image, channels)
        if fit:
            return fitted(torch.from_numpy(pixels), fit).numpy()
    except Exception as error:
        raise ValueError(f"{where} cannot be decoded as an image: {first_line(error)}") from error
    return pixels


def _converted(image: "Image.Image", channels: int) -> np.ndarray:
    """(C, H, W) uint8. Drops transparency and ignores EXIF orientation, as torchvision's ImageFolder does."""
    if image.mode.startswith("I"):  # 16 bits; Pillow's own conversion clips to the lowest 8
        from PIL import Image

        image = Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    elif image.mode == "P":  # via RGBA: Pillow warns about transparency in palettes
        image = image.convert("RGBA")
    pixels = np.array(image.convert("L" if channels == 1 else "RGB"))  # (H, W) or (H, W, C)
    return np.ascontiguousarray(pixels.reshape(image.height, image.width, channels).transpose(2, 0, 1))
