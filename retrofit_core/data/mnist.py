"""MNIST's IDX files (packed or not), in torchvision's layout or directly in a folder.

Format: a big-endian magic number (0x08 for unsigned bytes, then the number of dimensions), the dimensions,
the bytes.
"""

import gzip
import math
import struct
import zlib
from pathlib import Path

import torch
from torch import Tensor

from retrofit_core.data.images import Read, held

PREFIXES = {"train": "train", "test": "t10k"}
LARGEST = 4 << 30  # bytes in one file; a header that claims more is wrong


def locate(folder: Path, split: str = "train") -> tuple[Path, Path] | None:
    """The files of images and labels of a split: in the folder, in `raw` or `MNIST/raw`."""
    prefix = PREFIXES.get(split)
    for place in (folder, folder / "raw", folder / "MNIST" / "raw", folder / "FashionMNIST" / "raw"):
        found = [
            next((path for path in (place / name, place / f"{name}.gz") if path.is_file()), None)
            for name in (f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte")
        ]
        if found[0] and found[1]:
            return found[0], found[1]
    return None


def read(images: Path, labels: Path) -> tuple[Read, Tensor, tuple[int, int, int]]:
    """Reader of pixels (N, 1, H, W) uint8, labels (N,) int64 and the shape (1, H, W).

    Raises:
        ValueError: a wrong magic number, a truncated or oversized file, or unequal counts.
    """
    pixels, names = _idx(images, 3), _idx(labels, 1)
    if len(pixels) != len(names):
        raise ValueError(
            f"{images.name} holds {len(pixels)} images but {labels.name} holds {len(names)} labels: "
            f"the two files do not belong together."
        )
    return held(pixels.unsqueeze(1), names.to(torch.int64))


def _idx(path: Path, dimensions: int) -> Tensor:
    """The uint8 array of an IDX file with so many dimensions."""
    start = 4 + 4 * dimensions
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            header = file.read(start)
            if len(header) < start:
                raise ValueError(f"{path} is truncated: it ends within its header; download it again.")
            magic, *sizes = struct.unpack(f">{1 + dimensions}I", header)
            if magic != 0x800 + dimensions:
                raise ValueError(
                    f"{path} is not an IDX file of unsigned bytes with {dimensions} dimension(s): its magic "
                    f"number is {magic:#010x}, wanted {0x800 + dimensions:#010x}."
                )
            wanted = math.prod(sizes)
            if not 0 < wanted <= LARGEST:
                raise ValueError(f"{path} claims the size {'x'.join(map(str, sizes))}: its header is damaged.")
            body = file.read(wanted + 1)  # one byte more tells an oversized file, whatever gzip would unpack to
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read ({error}): download it again.") from error
    if len(body) != wanted:
        fault = "truncated: it ends early" if len(body) < wanted else "oversized: bytes follow"
        raise ValueError(f"{path} is {fault}, its header announces {wanted} bytes of data; download it again.")
    return torch.frombuffer(bytearray(body), dtype=torch.uint8).view(*sizes)
