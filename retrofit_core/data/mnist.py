"""MNIST's IDX files (gzipped or not), in torchvision's layout or directly in a folder.

Format: a big-endian magic number (0x08 for unsigned bytes, then the number of dimensions), the dimensions,
the bytes.
"""

import gzip
import math
import struct
import zlib
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from ..system.registry import first_line
from .images import Content, in_memory
from .sizes import Fit
from .splitfiles import SplitFiles

PREFIXES = {"train": "train", "test": "t10k"}


def find(folder: Path, split: str) -> SplitFiles | None:
    """The split's IDX files: in the folder, its `raw`, or those of torchvision's MNIST and FashionMNIST.

    Raises:
        ValueError: several data sets.
    """
    prefix = PREFIXES.get(split)
    pairs = []
    for candidate in (folder, folder / "raw", folder / "MNIST" / "raw", folder / "FashionMNIST" / "raw"):
        files = [
            next((path for path in (candidate / name, candidate / f"{name}.gz") if path.is_file()), None)
            for name in (f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte")
        ]
        if files[0] and files[1]:
            pairs.append((files[0], files[1]))
    if len(pairs) > 1:
        parents = " and ".join(str(images.parent) for images, _ in pairs)
        raise ValueError(f"{folder} holds several data sets, in {parents}: give the folder of one of them.")
    if not pairs:
        return None
    return SplitFiles(partial(read, *pairs[0]), names=(pairs[0][0].parent.parent.name,), files=pairs[0])


def read(images: Path, labels: Path, channels: int = 1, fit: Fit | None = None) -> Content:
    """Reader of pixels (N, 1, H, W) uint8, labels (N,) int64 and the shape (1, H, W).

    Raises:
        ValueError: another or a damaged file, or unequal counts.
    """
    pixels, classes = _idx(images, 3), _idx(labels, 1)
    if len(pixels) != len(classes):
        raise ValueError(
            f"{images.name} holds {len(pixels)} images but {labels.name} holds {len(classes)} labels: "
            f"the two files do not belong together."
        )
    return in_memory(pixels.unsqueeze(1), classes.to(torch.int64))


def _idx(path: Path, dimensions: int) -> Tensor:
    """The uint8 array of an IDX file with this many dimensions."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            magic, *sizes = struct.unpack(f">{1 + dimensions}I", file.read(4 + 4 * dimensions))
            body = file.read(math.prod(sizes) + 1)  # one byte more detects oversized files without unpacking them
    except (OSError, EOFError, zlib.error, struct.error, MemoryError, OverflowError) as error:
        raise ValueError(f"{path} cannot be read ({first_line(error)}): download it again.") from error
    if magic != 0x800 + dimensions or not body or len(body) != math.prod(sizes):
        raise ValueError(
            f"{path} is not a whole IDX file of unsigned bytes with {dimensions} dimension(s): its header has the number "
            f"{magic:#010x} and the size {'x'.join(map(str, sizes))}. Download it again."
        )
    return torch.frombuffer(bytearray(body), dtype=torch.uint8).view(*sizes)
