"""Hugging Face-style parquet files: `image` = struct{bytes, path}, `label` = integer.

Labels are read at once; images are decoded with Pillow when their rows are asked for, and kept.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..extras import require
from ..registry import first_line
from .decoding import Encoded, lazily, shape_of
from .images import Content
from .sizes import Fit
from .splitfiles import SplitFiles

# Columns of the same meaning in the hub's own CIFAR files.
IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "fine_label")
MOST_CLASSES = 100_000


def locate(folder: Path, split: str) -> list[Path]:
    """A split's files, in order: `train.parquet` or `train-00000-of-00001.parquet` ..., here or in `data`."""
    for parent in (folder, folder / "data"):
        files = [parent / f"{split}.parquet"] if (parent / f"{split}.parquet").is_file() else []
        files = files or sorted(parent.glob(f"{split}-*.parquet"))
        if files:
            return files
    return []


def find(folder: Path, split: str) -> SplitFiles | None:
    """The split's parquet files in a folder."""
    files = locate(folder, split)
    return SplitFiles(partial(read, files), files=tuple(files)) if files else None


def read(files: Sequence[Path], channels: int, fit: Fit | None = None) -> Content:
    """Reader, labels (N,) int64 and shape (C, H, W) of the images in these files, one after the other.

    Args:
        channels: 1 (grey) or 3 (RGB); images are converted.
        fit: bring them to this size; without it all must have the size of row 0.
    Raises:
        ValueError: not a parquet file, a missing column, labels that are no counts, no rows; when rows are
            read: an image that is missing, damaged, far too large, or of another size.
    """
    tables = [_Table(path) for path in files]
    labels = torch.cat([table.labels for table in tables])
    if not len(labels):
        raise ValueError(f"{files[0]} holds no rows.")
    starts = np.cumsum([0] + [len(table.labels) for table in tables])

    def encoded(rows: np.ndarray) -> list[Encoded]:
        images: list[Encoded] = [(b"", "")] * len(rows)
        for table, start, stop in zip(tables, starts[:-1], starts[1:], strict=True):
            positions = np.flatnonzero((rows >= start) & (rows < stop))
            for position, image in zip(positions, table.encoded(rows[positions] - start), strict=True):
                images[position] = image
        return images

    shape = shape_of(encoded(np.array([0]))[0], channels, fit)
    return lazily(len(labels), shape, fit, encoded), labels, shape


class _Table:
    """One parquet file: labels read at once, encoded images on first use."""

    def __init__(self, path: Path) -> None:
        require("pyarrow", "data")
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        try:
            self._names = pq.read_schema(path).names
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{path} is not a readable parquet file: {first_line(error)}") from error
        self._image_column = self._column(IMAGE_COLUMNS)
        self._images: Any = None  # a pyarrow array of bytes
        self.labels = self._read_labels(self._column(LABEL_COLUMNS))

    def encoded(self, rows: np.ndarray) -> list[Encoded]:
        """The encoded images of these rows of the file."""
        if not len(rows):
            return []
        if self._images is None:
            self._images = self._read_images()
        import pyarrow as pa

        images = self._images.take(pa.array(rows, type=pa.int64())).to_pylist()
        for row, image in zip(rows, images, strict=True):
            if not image:
                raise ValueError(
                    f"row {row} of {self.path} has no image bytes: only images embedded in the file are read."
                )
        return [(image, f"row {row} of {self.path}") for row, image in zip(rows, images, strict=True)]

    def _column(self, names: tuple[str, ...]) -> str:
        column = next((name for name in names if name in self._names), None)
        if column is None:
            raise ValueError(f"{self.path} has no column {names[0]!r}, only: {', '.join(self._names)}.")
        return column

    def _read(self, column: str) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.read_table(self.path, columns=[column])[column]
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"column {column!r} of {self.path} cannot be read: {first_line(error)}") from error

    def _read_labels(self, column: str) -> Tensor:
        import pyarrow as pa

        values = self._read(column)
        if not pa.types.is_integer(values.type):
            raise ValueError(f"column {column!r} of {self.path} has type {values.type}: labels must be integers.")
        if values.null_count:
            row = values.is_null().to_pylist().index(True)
            raise ValueError(f"row {row} of {self.path} has no label.")
        labels = values.to_numpy()
        wrong = np.flatnonzero((labels < 0) | (labels >= MOST_CLASSES))
        if len(wrong):
            raise ValueError(
                f"row {wrong[0]} of {self.path} has the label {labels[wrong[0]]}: labels count from 0 to "
                "the number of classes less one."
            )
        return torch.from_numpy(labels.astype(np.int64))

    def _read_images(self) -> Any:
        import pyarrow as pa

        images = self._read(self._image_column)
        if pa.types.is_struct(images.type) and images.type.get_field_index("bytes") >= 0:
            # The struct's own nulls are nulls of the field.
            images = images.flatten()[images.type.get_field_index("bytes")]
        if not (pa.types.is_binary(images.type) or pa.types.is_large_binary(images.type)):
            raise ValueError(
                f"column {self._image_column!r} of {self.path} has type {images.type}: it must be a struct "
                "with the field 'bytes' (an encoded image)."
            )
        return images
