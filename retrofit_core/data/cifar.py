"""CIFAR-10 and CIFAR-100 in the layout of their authors and torchvision: pickles of arrays and lists.

A pickle is a program that may call anything. Here it may call nothing: the pure Python unpickler (the C one can be made to
exhaust memory) replaces numpy's array and dtype by classes that only keep their bytes.
"""

import io
import pickle
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..system.registry import first_line
from .images import Content, in_memory
from .sizes import Fit
from .splitfiles import SplitFiles

SHAPE = (3, 32, 32)
LARGEST_FILE = 1 << 30  # bytes; the largest original has 155 MB
TRAIN_10 = tuple(f"data_batch_{number}" for number in range(1, 6))


def find_10(folder: Path, split: str) -> SplitFiles | None:
    """CIFAR-10's batches, in the folder or its `cifar-10-batches-py`."""
    files = {"train": TRAIN_10, "test": ("test_batch",)}.get(split, ())
    return _find(folder, "cifar-10-batches-py", files, "labels", "cifar10")


def find_100(folder: Path, split: str) -> SplitFiles | None:
    """CIFAR-100's two files, in the folder or its `cifar-100-python`; labels are the hundred fine ones."""
    return _find(folder, "cifar-100-python", (split,) if split != "val" else (), "fine_labels", "cifar100")


def _find(folder: Path, inner: str, files: Sequence[str], labels: str, name: str) -> SplitFiles | None:
    for candidate in (folder, folder / inner):
        paths = [candidate / file for file in files]
        is_named = candidate.name == inner or (candidate / "meta").is_file()
        # Require all files: other data sets may have a file `train`.
        if paths and is_named and all(path.is_file() for path in paths):
            return SplitFiles(partial(read, paths, labels), names=(name,), files=tuple(paths))
    return None


def read(files: Sequence[Path], labels: str, channels: int = 3, fit: Fit | None = None) -> Content:
    """Reader of pixels (N, 3, 32, 32) uint8, labels (N,) int64 and the shape.

    Raises:
        ValueError: a file is damaged, or has other Python objects or arrays of other types or sizes.
    """
    parts = [_batch(path, labels) for path in files]
    pixels = torch.from_numpy(np.concatenate([part for part, _ in parts])).view(-1, *SHAPE)
    return in_memory(pixels, torch.cat([part for _, part in parts]))


def _batch(path: Path, labels_key: str) -> tuple[np.ndarray, Tensor]:
    """(n, 3072) uint8 and (n,) int64 of one file."""
    content = _unpickled(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a CIFAR file: it holds no table of data and labels.")
    content = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in content.items()}
    data, labels = content.get("data"), content.get(labels_key)
    if not isinstance(data, Array) or not isinstance(labels, list):
        raise ValueError(f"{path} is not a CIFAR file: it needs an array 'data' and a list {labels_key!r}.")
    pixels = data.pixels(path)
    if len(labels) != len(pixels):
        raise ValueError(f"{path} holds {len(pixels)} images but {len(labels)} labels: download it again.")
    for row, label in enumerate(labels):
        if type(label) is not int or not 0 <= label < 100:  # the actual number of classes is checked later
            raise ValueError(f"row {row} of {path} has the label {label!r:.40}: labels count from 0.")
    return pixels, torch.tensor(labels, dtype=torch.int64)


class Array:
    """Replaces numpy's array type and constructor; keeps the pickled state."""

    def __init__(self, *arguments: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def pixels(self, path: Path) -> np.ndarray:
        """(n, 3072) uint8, as numpy would build it from (version, shape, dtype, Fortran order, bytes).

        Raises:
            ValueError: anything else.
        """
        try:
            _, (rows, columns), dtype, fortran, content = self.state
            if dtype.names[:1] != ("u1",) or columns != int(np.prod(SHAPE)) or rows < 1:
                raise ValueError
            array = np.frombuffer(content, dtype=np.uint8)
            return array.reshape(rows, columns, order="F" if fortran else "C").copy()
        except (TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"{path} is not a CIFAR file: its data are no rows of {int(np.prod(SHAPE))} unsigned bytes."
            ) from error


class DType:
    """Replaces numpy's dtype."""

    def __init__(self, *names: Any) -> None:
        self.names = tuple(name.decode("latin1") if isinstance(name, bytes) else name for name in names)

    def __setstate__(self, state: Any) -> None:
        """Ignore byte order and fields, irrelevant for single bytes."""


class Bytes:
    """Replaces `_codecs.encode`, which Python 3 uses to write bytes in old pickle protocols."""

    def __new__(cls, text: str, encoding: str = "latin1") -> bytes:  # type: ignore[misc]
        return text.encode("latin1")

    def __setstate__(self, state: Any) -> None:
        """Prevent a pickle from setting attributes of the class."""


STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): Array,
    ("numpy._core.multiarray", "_reconstruct"): Array,
    ("numpy", "ndarray"): Array,
    ("numpy", "dtype"): DType,
    ("_codecs", "encode"): Bytes,
}


class _Reader(pickle._Unpickler):  # type: ignore[name-defined, misc]
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in STAND_INS:
            raise ValueError(f"it names {module}.{name}")
        return STAND_INS[module, name]


def _unpickled(path: Path) -> Any:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"it has more than {LARGEST_FILE} bytes")
        return _Reader(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    # Damaged pickles raise almost anything; no code of the file runs in any case.
    except Exception as error:
        detail = first_line(error)
        raise ValueError(
            f"{path} is damaged, or holds other Python objects than CIFAR's, which are never loaded ({detail}): "
            "download it again."
        ) from error
