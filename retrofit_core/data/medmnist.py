"""MedMNIST's .npz files: arrays train_images, train_labels, val_images, ... in one zip archive.

`bloodmnist.npz` has 28 x 28 pixels, `bloodmnist_64.npz` (128, 224) more. The medmnist package is not needed.
"""

import math
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.lib.format as npy
import torch
from torch import Tensor

from ..system.registry import first_line
from .images import Content, Read, counted
from .sizes import Fit
from .splitfiles import SplitFiles

LARGEST = 8 << 30  # bytes of one array
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def find(folder: Path, split: str) -> SplitFiles | None:
    """The .npz files of one MedMNIST set in a folder; the requested size selects one.

    Raises:
        ValueError: several sets in the folder.
    """
    files = sorted(path for path in folder.glob("*mnist*.npz") if path.is_file())
    sets = sorted({_name(path) for path in files})
    if len(sets) > 1:
        raise ValueError(f"{folder} holds the MedMNIST sets {', '.join(sets)}: put each into a folder of its own.")
    return SplitFiles(partial(read, files, split), names=tuple(sets), files=tuple(files)) if files else None


def read(files: Sequence[Path], split: str, channels: int = 3, fit: Fit | None = None) -> Content:
    """Reader, labels (N,) int64 and shape (C, H, W); unpacks the pixels when the first row is read.

    Args:
        channels: 1 or 3; grey images are repeated for three channels, colour images are never made grey.
        fit: selects the file with this size if there are several.
    Raises:
        ValueError: not an archive, missing arrays, arrays of objects or of wrong types and shapes, several labels per
            image, or several sizes to choose from.
    """
    path = _choose(files, fit)
    labels = _labels(path, f"{split}_labels")
    shape, dtype = _shape(path, f"{split}_images")
    if dtype != np.uint8 or len(shape) not in (3, 4) or (len(shape) == 4 and shape[3] not in (1, 3)) or 0 in shape:
        raise ValueError(
            f"{split}_images of {path} has type {dtype} and shape {shape}: it must hold images (N, H, W) or (N, H, "
            "W, 3) of unsigned bytes."
        )
    if len(labels) != shape[0]:
        raise ValueError(f"{path} holds {shape[0]} {split} images but {len(labels)} labels: download it again.")
    colours = shape[3] if len(shape) == 4 else 1
    if channels < colours:
        raise ValueError(f"{path} holds colour images, but the data set of its name is grey: rename its folder.")
    return _reader(path, f"{split}_images", channels), labels, (channels, shape[1], shape[2])


def _name(path: Path) -> str:
    name, _, size = path.stem.rpartition("_")
    return name if name and size.isdigit() else path.stem


def _choose(files: Sequence[Path], fit: Fit | None) -> Path:
    """The only file, or the one of the given size; a name without a number means 28 pixels."""
    if len(files) == 1:
        return files[0]
    sizes = {int(path.stem.rpartition("_")[2]) if path.stem != _name(path) else 28: path for path in files}
    if fit is None or fit.crop not in sizes:
        raise ValueError(
            f"{files[0].parent} holds several sizes of {_name(files[0])}: choose one with --size "
            f"({', '.join(map(str, sorted(sizes)))})."
        )
    return sizes[fit.crop]


def _reader(path: Path, name: str, channels: int) -> Read:
    @cache
    def whole() -> Tensor:  # (N, C, H, W); a compressed array cannot be read by row
        pixels = torch.from_numpy(_array(path, name))
        pixels = pixels.unsqueeze(3) if pixels.ndim == 3 else pixels  # (N, H, W, 1 or 3)
        return pixels.permute(0, 3, 1, 2)

    return lambda rows: whole()[rows].expand(-1, channels, -1, -1).contiguous()


def _labels(path: Path, name: str) -> Tensor:
    labels = _array(path, name)
    if labels.dtype.kind not in "iu" or labels.ndim not in (1, 2) or (labels.ndim == 2 and labels.shape[1] != 1):
        raise ValueError(
            f"{name} of {path} has type {labels.dtype} and shape {labels.shape}: it must hold one integer per image."
        )
    if not len(labels):
        raise ValueError(f"{name} of {path} holds no rows.")
    return counted(labels.reshape(-1), f"{name} in {path}")


def _array(path: Path, name: str) -> np.ndarray:
    """The whole array; never unpacks more than its header announces."""
    with _opened(path, name) as (file, shape, fortran, dtype):
        size = math.prod(shape) * dtype.itemsize
        if not 0 <= size <= LARGEST:
            raise ValueError(f"{name} of {path} claims the shape {shape}: more than {LARGEST} bytes are refused.")
        content = bytearray(file.read(size + 1))
    if len(content) != size:
        raise ValueError(
            f"{name} of {path} does not have the {size} bytes that its header announces: download it again."
        )
    return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if fortran else "C")


def _shape(path: Path, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with _opened(path, name) as (_, shape, _, dtype):
        return shape, dtype


@contextmanager
def _opened(path: Path, name: str) -> Iterator[tuple[IO[bytes], tuple[int, ...], bool, np.dtype[Any]]]:
    """Open an array after its header: (stream, shape, Fortran order, dtype). Refuses objects."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
            header = HEADERS[npy.read_magic(file)]
            shape, fortran, dtype = header(file)
            if dtype.hasobject:
                raise ValueError("it holds Python objects, which are never loaded")
            yield file, shape, fortran, dtype
    except KeyError as error:
        raise ValueError(
            f"{path} holds no readable array {name!r}: it is not a MedMNIST file, which holds train_images, "
            "train_labels and so on."
        ) from error
    # Encrypted archives and unknown compressions raise RuntimeError.
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{name} of {path} cannot be read ({first_line(error)}): download it again.") from error
