"""MedMNIST's .npz files: arrays train_images, train_labels, val_images, ... in one zip archive.

`bloodmnist.npz` has 28 x 28 pixels, `bloodmnist_64.npz` (128, 224) more. The medmnist package is not needed.
"""

from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..system.files import is_hidden
from ..system.registry import first_line
from .images import Content, counted
from .sizes import Fit
from .splitfiles import SplitFiles


def find(folder: Path, split: str) -> SplitFiles | None:
    """The .npz file of a MedMNIST set in a folder.

    Raises:
        ValueError: several in the folder.
    """
    files = sorted(path for path in folder.glob("*mnist*.npz") if path.is_file() and not is_hidden(path.name))
    if len(files) > 1:
        names = ", ".join(path.name for path in files)
        raise ValueError(f"{folder} holds several MedMNIST files ({names}): put each into a folder of its own.")
    return SplitFiles(partial(read, files[0], split), names=(_name(files[0]),), files=tuple(files)) if files else None


def read(path: Path, split: str, channels: int = 3, fit: Fit | None = None) -> Content:
    """Reader, labels (N,) int64 and shape (C, H, W).

    Args:
        channels: 1 or 3; grey images are repeated for three channels, colour images are never made grey.
    Raises:
        ValueError: not an archive, missing arrays, arrays of objects or of wrong types and shapes, or several labels per image.
    """
    images, labels = _arrays(path, f"{split}_images", f"{split}_labels")
    shape = images.shape
    are_images = (
        images.dtype == np.uint8 and (len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3))) and 0 not in shape
    )
    if not are_images or labels.dtype.kind not in "iu" or labels.size != len(images) or labels.ndim > 2:
        raise ValueError(
            f"{path} has {split}_images of type {images.dtype} and shape {shape}, {split}_labels of type {labels.dtype} and "
            f"shape {labels.shape}: it must hold images (N, H, W) or (N, H, W, 3) of unsigned bytes, and one integer for each."
        )
    pixels = torch.from_numpy(images[..., None] if images.ndim == 3 else images).permute(0, 3, 1, 2)
    if channels < pixels.shape[1]:
        raise ValueError(f"{path} holds colour images, but the data set of its name is grey: rename its folder.")

    def reader(rows: Tensor) -> Tensor:
        return pixels[rows].expand(-1, channels, -1, -1).contiguous()

    return reader, counted(labels.reshape(-1), f"{split}_labels in {path}"), (channels, shape[1], shape[2])


def _arrays(path: Path, *names: str) -> list[np.ndarray]:
    """Arrays of the archive. Objects in them are pickles, which numpy refuses."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return [archive[name] for name in names]
    except KeyError as error:
        raise ValueError(
            f"{path} is not a MedMNIST file, which holds train_images, train_labels and so on: {first_line(error)}."
        ) from error
    except Exception as error:  # zip, zlib and numpy have their own exceptions
        raise ValueError(f"{path} cannot be read ({first_line(error)}): download it again.") from error


def _name(path: Path) -> str:
    """`bloodmnist` of `bloodmnist_64.npz`."""
    name, _, size = path.stem.rpartition("_")
    return name if name and size.isdigit() else path.stem
