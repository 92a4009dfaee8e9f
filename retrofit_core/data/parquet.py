"""Hugging Face-style parquet files: `image` = struct{bytes, path}, `label` = integer.

pyarrow reads the files; Pillow decodes images on demand.
"""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

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

#: The columns' names; the first one present is used. The others are those of CIFAR-10 and CIFAR-100 on the hub.
IMAGES = ("image", "img")
LABELS = ("label", "fine_label")


def find(folder: Path, split: str) -> SplitFiles | None:
    """The split's parquet files: `train.parquet` or `train-00000-of-00002.parquet` ..., here or in `data`.

    Raises:
        ValueError: missing files of several.
    """
    for parent in (folder, folder / "data"):
        for name in NAMES[split]:
            if (whole := parent / f"{name}.parquet").is_file():
                return SplitFiles(partial(read, [whole]), files=(whole,))
            if parts := sorted(parent.glob(f"{name}-*-of-*.parquet")):
                total = int(re.sub(r"\D", "", parts[0].stem.rpartition("-of-")[2]) or 0)
                if total != len(parts):
                    raise ValueError(
                        f"{parts[0]} is one of {total} files of the {split} split, and {len(parts)} are there: bring all of them."
                    )
                return SplitFiles(partial(read, parts), files=tuple(parts))
    return None


def read(files: list[Path], channels: int, fit: Fit | None = None) -> Content:
    """Reader, labels (N,) int64 and shape (C, H, W) of the images in these files, concatenated.

    Args:
        channels: 1 (grey) or 3 (RGB); images are converted.
        fit: target size; without it all images must have the size of row 0.
    Raises:
        ValueError: not a parquet file, a missing column, labels that are no class numbers, no rows; on reading rows: an image
            is missing, damaged, far too large, or of another size.
    """
    columns, parts = zip(*map(_columns, files), strict=True)
    labels = torch.cat(parts)
    if not len(labels):
        raise ValueError(f"{files[0]} holds no rows.")
    places = [(number, row) for number, part in enumerate(parts) for row in range(len(part))]

    def encoded(row: int) -> Encoded:
        number, within = places[row]
        where = f"row {within} of {files[number]}"
        if not (image := columns[number][within].as_py()):
            raise ValueError(f"{where} has no image bytes: only images embedded in the file are read.")
        return image, where

    shape = shape_of(encoded(0), channels, fit)
    return on_demand(len(labels), shape, fit, lambda rows: [encoded(int(row)) for row in rows]), labels, shape


def _columns(path: Path) -> tuple["pyarrow.ChunkedArray", Tensor]:
    """A file's encoded images, and its labels (n,) int64; both are in memory, whatever becomes of the file."""
    require("pyarrow", "data")
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path, memory_map=False) as file:
            table = file.read()
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} is not a readable parquet file: {first_line(error)}") from error
    here = table.column_names
    for names in (IMAGES, LABELS):
        if not set(names) & set(here):
            raise ValueError(f"{path} has no column {names[0]!r}, only: {', '.join(here)}.")
    images, labels = (table[next(name for name in names if name in here)] for names in (IMAGES, LABELS))
    field = images.type.get_field_index("bytes") if pyarrow.types.is_struct(images.type) else -1
    if field < 0 or not pyarrow.types.is_binary(images.type.field(field).type):
        raise ValueError(
            f"the images of {path} have type {images.type}: they must be structs with the field 'bytes' (an encoded image)."
        )
    numbers = labels.to_numpy()
    if numbers.dtype.kind not in "iu":
        raise ValueError(
            f"the labels of {path} have type {labels.type}, {labels.null_count} are missing: each row needs an integer. "
            "Write the names of classes into classes.json."
        )
    return images.flatten()[field], counted(numbers, str(path))
