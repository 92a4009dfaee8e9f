"""Hugging Face-style parquet files: `image` = struct{bytes, path}, `label` = integer, class names in the metadata if at all.

Labels are read at once, by pyarrow; Pillow decodes images on demand.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..system.extras import require
from ..system.registry import first_line
from .decoding import Encoded, on_demand, shape_of
from .images import Content, counted
from .sizes import Fit
from .splitfiles import NAMES, SplitFiles

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

#: The columns' names; the first one present is used. The others are those of CIFAR-10 and CIFAR-100 on the hub.
IMAGES = ("image", "img")
LABELS = ("label", "fine_label")


def find(folder: Path, split: str) -> SplitFiles | None:
    """The split's parquet files: `train.parquet` or `train-00000-of-00002.parquet` ..., here or in `data`.

    Raises:
        ValueError: missing files of several, or an unreadable one.
    """
    files = _located(folder, split)
    if not files:
        return None
    classes = _class_names((_located(folder, "train") or files)[0])
    return SplitFiles(partial(read, files), classes=classes, files=tuple(files))


def _located(folder: Path, split: str) -> list[Path]:
    for parent in (folder, folder / "data"):
        for name in NAMES[split]:
            if (whole := parent / f"{name}.parquet").is_file():
                return [whole]
            if parts := sorted(parent.glob(f"{name}-*-of-*.parquet")):
                total = int(re.sub(r"\D", "", parts[0].stem.rpartition("-of-")[2]) or 0)
                if total != len(parts):
                    raise ValueError(
                        f"{parts[0]} is one of {total} files of the {split} split, and {len(parts)} are there: bring all of them."
                    )
                return parts
    return []


@contextlib.contextmanager
def _opened(path: Path) -> Iterator["pyarrow.parquet.ParquetFile"]:
    """A file; what is read of it is in memory, whatever becomes of the file.

    Raises:
        ValueError: not a readable parquet file.
    """
    require("pyarrow", "data")
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path, memory_map=False) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} is not a readable parquet file: {first_line(error)}") from error


def _column(path: Path, names: Sequence[str]) -> "pyarrow.ChunkedArray":
    """The first column of these names."""
    with _opened(path) as file:
        here = file.schema_arrow.names
        if (name := next((name for name in names if name in here), None)) is None:
            raise ValueError(f"{path} has no column {names[0]!r}, only: {', '.join(here)}.")
        return file.read(columns=[name])[name]


def _class_names(path: Path) -> tuple[str, ...]:
    """In label order, from the metadata of Hugging Face's datasets library; () if they are absent."""
    with _opened(path) as file:
        stored = (file.schema_arrow.metadata or {}).get(b"huggingface", b"{}")
    with contextlib.suppress(KeyError, TypeError, ValueError, StopIteration):
        features = json.loads(stored)["info"]["features"]
        names = features[next(name for name in LABELS if name in features)]["names"]
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return tuple(names)
    return ()


def _labels(path: Path) -> Tensor:
    """(n,) int64.

    Raises:
        ValueError: labels that are no class numbers.
    """
    values = _column(path, LABELS)
    if values.null_count:
        raise ValueError(f"row {values.is_null().to_pylist().index(True)} of {path} has no label.")
    numbers = values.to_numpy()
    if numbers.dtype.kind not in "iu":
        raise ValueError(
            f"the labels of {path} have type {values.type}: they must be integers. Write the names of classes into classes.json."
        )
    return counted(numbers, str(path))


def _images(path: Path) -> "pyarrow.ChunkedArray":
    """Column of encoded images."""
    import pyarrow

    images = _column(path, IMAGES)
    if pyarrow.types.is_struct(images.type) and (field := images.type.get_field_index("bytes")) >= 0:
        images = images.flatten()[field]  # nulls of the struct become nulls of the field
    if not (pyarrow.types.is_binary(images.type) or pyarrow.types.is_large_binary(images.type)):
        raise ValueError(
            f"the images of {path} have type {images.type}: they must be structs with the field 'bytes' (an encoded image)."
        )
    return images


def read(files: Sequence[Path], channels: int, fit: Fit | None = None) -> Content:
    """Reader, labels (N,) int64 and shape (C, H, W) of the images in these files, concatenated.

    Args:
        channels: 1 (grey) or 3 (RGB); images are converted.
        fit: target size; without it all images must have the size of row 0.
    Raises:
        ValueError: not a parquet file, a missing column, labels that are no class numbers, no rows; on reading rows: an image
            is missing, damaged, far too large, or of another size.
    """
    parts = [_labels(path) for path in files]
    labels = torch.cat(parts)
    if not len(labels):
        raise ValueError(f"{files[0]} holds no rows.")
    columns = [_images(path) for path in files]
    starts = np.cumsum([0] + [len(part) for part in parts])

    def encoded(rows: np.ndarray) -> list[Encoded]:
        return [_encoded(int(row)) for row in rows]

    def _encoded(row: int) -> Encoded:
        number = int(np.searchsorted(starts, row, side="right")) - 1
        within = row - int(starts[number])
        where = f"row {within} of {files[number]}"
        if not (image := columns[number][within].as_py()):
            raise ValueError(f"{where} has no image bytes: only images embedded in the file are read.")
        return image, where

    shape = shape_of(_encoded(0), channels, fit)
    return on_demand(len(labels), shape, fit, encoded), labels, shape
