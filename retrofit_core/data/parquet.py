"""Hugging Face-style parquet files: `image` = struct{bytes, path}, `label` = integer.

Labels are read at once; images are decoded with Pillow when their rows are asked for, and kept.
"""

import io
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from torch import Tensor

from retrofit_core.data.images import Read

# Columns of the same meaning in the hub's own CIFAR files.
IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "fine_label")
FORMATS = ("PNG", "JPEG", "WEBP", "BMP")  # Pillow's other decoders see no bytes from outside
LARGEST_IMAGE = 4096 * 4096  # pixels; more is refused from the header, before anything is decoded
MOST_CLASSES = 100_000
KEPT = 1 << 30  # bytes of decoded pixels kept for the next request
THREADS = min(4, os.cpu_count() or 1)


def locate(folder: Path, split: str) -> list[Path]:
    """A split's files, in order: `train.parquet` or `train-00000-of-00001.parquet` ..., here or in `data`."""
    for place in (folder, folder / "data"):
        files = [place / f"{split}.parquet"] if (place / f"{split}.parquet").is_file() else []
        files = files or sorted(place.glob(f"{split}-*.parquet"))
        if files:
            return files
    return []


def read(files: Sequence[Path], channels: int) -> tuple[Read, Tensor, tuple[int, int, int]]:
    """Reader, labels (N,) int64 and shape (C, H, W) of the images in these files, one after the other.

    Args:
        channels: 1 (grey) or 3 (RGB); images are converted.
    Raises:
        ValueError: not a parquet file, a missing column, labels that are no counts, no rows; when rows are
            read: an image that is missing, damaged, far too large, or of another size than row 0.
    """
    tables = [_Table(path) for path in files]
    labels = torch.cat([table.labels for table in tables])
    if not len(labels):
        raise ValueError(f"{files[0]} holds no rows.")
    first = tables[[len(table.labels) > 0 for table in tables].index(True)]
    width, height = _open(first.encoded([0])[0], f"row 0 of {first.path}").size
    shape = (channels, height, width)
    return _reader(tables, shape), labels, shape


def _reader(tables: "list[_Table]", shape: tuple[int, int, int]) -> Read:
    """Rows -> pixels; what was decoded once is kept (pages of an untouched array cost no memory)."""
    starts = np.cumsum([0] + [len(table.labels) for table in tables])
    keeps = int(starts[-1]) * int(np.prod(shape)) <= KEPT
    kept = np.empty((int(starts[-1]) if keeps else 0, *shape), dtype=np.uint8)
    known = np.zeros(len(kept), dtype=bool)

    def decode(rows: np.ndarray) -> np.ndarray:
        pixels = np.empty((len(rows), *shape), dtype=np.uint8)
        for table, start, stop in zip(tables, starts[:-1], starts[1:], strict=True):
            places = np.flatnonzero((rows >= start) & (rows < stop))
            pixels[places] = table.decode(rows[places] - start, shape)
        return pixels

    def read_rows(rows: Tensor) -> Tensor:
        wanted = rows.numpy()
        if not keeps:
            return torch.from_numpy(decode(wanted))
        new = np.unique(wanted[~known[wanted]])
        kept[new] = decode(new)
        known[new] = True
        return torch.from_numpy(kept[wanted])

    return read_rows


class _Table:
    """One parquet file: labels read at once, encoded images on first use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._names = pq.read_schema(path).names
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{path} is not a readable parquet file: {_first_line(error)}") from error
        self._image_column = self._column(IMAGE_COLUMNS)
        self._images: Any = None  # a pyarrow array of bytes
        self.labels = self._read_labels(self._column(LABEL_COLUMNS))

    def encoded(self, rows: Sequence[int] | np.ndarray) -> list[bytes]:
        """The encoded images of these rows of the file."""
        if self._images is None:
            self._images = self._read_images()
        images = self._images.take(pa.array(rows, type=pa.int64())).to_pylist()
        for row, image in zip(rows, images, strict=True):
            if not image:
                raise ValueError(
                    f"row {row} of {self.path} has no image bytes: only images embedded in the file are read."
                )
        return images

    def decode(self, rows: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
        """Pixels of these rows of the file, (n, C, H, W) uint8, decoded by a few threads."""
        if not len(rows):
            return np.empty((0, *shape), dtype=np.uint8)
        encoded = self.encoded(rows)
        places = [f"row {row} of {self.path}" for row in rows]
        with ThreadPoolExecutor(THREADS) as pool:
            return np.stack(list(pool.map(partial(_pixels, shape=shape), encoded, places)))

    def _column(self, names: tuple[str, ...]) -> str:
        found = next((name for name in names if name in self._names), None)
        if found is None:
            raise ValueError(f"{self.path} has no column {names[0]!r}, only: {', '.join(self._names)}.")
        return found

    def _read(self, column: str) -> Any:
        try:
            return pq.read_table(self.path, columns=[column])[column]
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"column {column!r} of {self.path} cannot be read: {_first_line(error)}") from error

    def _read_labels(self, column: str) -> Tensor:
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


def _open(data: bytes, where: str) -> Image.Image:
    """The image, opened but not decoded."""
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    # Pillow's decoders raise what they like on damaged input; its size check may be a warning made an error.
    except Exception as error:
        raise ValueError(f"{where} cannot be decoded as an image: {_first_line(error)}") from error
    if image.width * image.height > LARGEST_IMAGE:
        raise ValueError(f"{where} is {image.width}x{image.height} pixels: more than {LARGEST_IMAGE} are refused.")
    return image


def _pixels(data: bytes, where: str, shape: tuple[int, int, int]) -> np.ndarray:
    """One image as (C, H, W) uint8; its size is checked before it is decoded."""
    channels, height, width = shape
    image = _open(data, where)
    if image.size != (width, height):
        raise ValueError(
            f"{where} is {image.width}x{image.height} pixels, but row 0 is {width}x{height}: "
            f"all images must have one size; resize them first."
        )
    try:
        pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))  # (H, W) or (H, W, C)
    except Exception as error:
        raise ValueError(f"{where} cannot be decoded as an image: {_first_line(error)}") from error
    return pixels.reshape(height, width, channels).transpose(2, 0, 1)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
