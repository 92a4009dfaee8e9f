"""Hugging Face-style parquet files: `image` = struct{bytes, path}, `label` = integer or the class's name.

Labels are read at once; images are decoded with Pillow when their rows are asked for, and kept.
"""

import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..system.extras import require
from ..system.files import is_hidden
from ..system.registry import first_line
from .decoding import Encoded, lazily, shape_of
from .images import Content
from .sizes import Fit
from .splitfiles import SplitFiles
from .splitnames import by_split, split_of

# Columns of the same meaning, in any case; of several the first that is there.
IMAGE_COLUMNS = ("image", "img", "images", "jpg", "jpeg", "png", "webp")
LABEL_COLUMNS = ("label", "labels", "fine_label", "fine_labels")
# Taken where there is none of LABEL_COLUMNS, and only one of these.
OTHER_LABEL_COLUMNS = ("target", "targets", "class", "class_name", "class_id", "category", "cls", "y")
MOST_CLASSES = 100_000
SHARD = re.compile(r"[-_. ]*(\d+)(?:[-_. ]*of[-_. ]*(\d+))?$")


def locate(folder: Path, split: str) -> list[Path]:
    """A split's files, in order: `train.parquet`, `train-00000-of-00001.parquet` ... or `train/*.parquet`, here or in `data`.

    Raises:
        ValueError: files of several such names, or shards that are missing.
    """
    for parent in (folder, folder / "data"):
        if files := _named(parent, split) or _in_own_folder(parent, split):
            return files
    return []


def _named(parent: Path, split: str) -> list[Path]:
    files = _parquets(parent)
    if whole := [path for path in files if split_of(path.stem) == split and not SHARD.search(path.stem)]:
        return _one_kind(parent, split, {path.stem: [path] for path in whole})
    kinds: dict[str, list[Path]] = {}
    for path in files:
        kinds.setdefault(SHARD.sub("", path.stem), []).append(path)
    names = by_split(kinds, lone=True).get(split, [])
    return _one_kind(parent, split, {name: kinds[name] for name in names})


def _in_own_folder(parent: Path, split: str) -> list[Path]:
    named = [path for path in sorted(parent.glob("*")) if split_of(path.name) == split and path.is_dir()]
    return _one_kind(parent, split, {path.name: files for path in named if (files := _parquets(path))})


def _parquets(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.[pP][aA][rR][qQ][uU][eE][tT]") if not is_hidden(path.name))


def _one_kind(parent: Path, split: str, kinds: dict[str, list[Path]]) -> list[Path]:
    """The files of the only name; [] for none.

    Raises:
        ValueError: several names, or fewer files than these say that there are.
    """
    if len(kinds) > 1:
        names = " and ".join(map(repr, kinds))
        raise ValueError(f"{parent} has several {split} splits, {names}: keep one of them there.")
    files = next(iter(kinds.values()), [])
    shards = [shard for path in files if (shard := SHARD.search(path.stem)) and shard[2]]
    totals = {int(shard[2]) for shard in shards}
    here = sorted(int(shard[1]) for shard in shards)
    if totals and (len(totals) > 1 or here != list(range(max(totals)))):
        missing = sorted(set(range(max(totals))) - set(here))
        fault = f"number {missing[0]} is missing" if missing else "their numbers do not fit together"
        raise ValueError(
            f"{files[0]} is one of {max(totals)} files of the {split} split, and {fault}: bring all of them."
        )
    return files


def find(folder: Path, split: str) -> SplitFiles | None:
    """The split's parquet files in a folder; test files without any label are none.

    Raises:
        ValueError: as `locate`, or files whose classes cannot be read.
    """
    files = locate(folder, split)
    if not files:
        return None
    if split == "test" and not any(_Table(path).has_labels for path in files):
        return None  # as the hub has data sets whose test labels are kept secret
    training = locate(folder, "train") or files
    classes = _class_names(training)
    if _Table(training[0]).in_words and (bare := [path for path in files if _Table(path).has_bare_numbers]):
        raise ValueError(
            f"the labels of {bare[0]} are numbers, and those of {training[0]} names: bring one to the other's."
        )
    return SplitFiles(partial(read, files, classes), classes=classes, files=tuple(files))


def _class_names(files: Sequence[Path]) -> tuple[str, ...]:
    """Names in label order, which the metadata or the labels of the training split tell; () where labels are bare numbers."""
    tables = [_Table(path) for path in files]
    if stored := next((table.stored_names for table in tables if table.stored_names), ()):
        return stored
    if not all(table.in_words for table in tables):
        return ()
    names = tuple(sorted({name for table in tables for name in table.words()}))
    if len(names) > MOST_CLASSES:
        raise ValueError(
            f"column {tables[0].label_column!r} of {files[0]} has {len(names)} names: these are no classes."
        )
    return names


def read(files: Sequence[Path], classes: Sequence[str], channels: int, fit: Fit | None = None) -> Content:
    """Reader, labels (N,) int64 and shape (C, H, W) of the images in these files, one after the other.

    Args:
        classes: names in label order, to which labels that are names or have names are brought; may be empty for numbers.
        channels: 1 (grey) or 3 (RGB); images are converted.
        fit: bring them to this size; without it all must have the size of row 0.
    Raises:
        ValueError: not a parquet file, a missing column, labels that are neither counts nor names of classes, no rows; when
            rows are read: an image that is missing, damaged, far too large, or of another size.
    """
    tables = [_Table(path) for path in files]
    parts = [table.labels(classes) for table in tables]
    labels = torch.cat(parts)
    if not len(labels):
        raise ValueError(f"{files[0]} holds no rows.")
    starts = np.cumsum([0] + [len(part) for part in parts])

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
    """One parquet file: schema read at once, labels and encoded images when they are asked for."""

    def __init__(self, path: Path) -> None:
        require("pyarrow", "data")
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        try:
            self._schema = pq.read_schema(path)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{path} is not a readable parquet file: {first_line(error)}") from error
        self._image_column = self._column(IMAGE_COLUMNS)
        self.label_column = self._column(LABEL_COLUMNS, OTHER_LABEL_COLUMNS)
        self._images: Any = None  # a pyarrow array of bytes

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

    @property
    def stored_names(self) -> tuple[str, ...]:
        """Class names in label order, as Hugging Face's datasets library notes them in a file; () where it does not."""
        try:
            facts = json.loads((self._schema.metadata or {})[b"huggingface"])
            names = facts["info"]["features"][self.label_column]["names"]
        except (KeyError, TypeError, ValueError):
            return ()
        are_words = isinstance(names, list) and all(isinstance(name, str) for name in names)
        return tuple(names) if are_words and len(set(names)) == len(names) and not self.in_words else ()

    @property
    def in_words(self) -> bool:
        """Whether labels are names."""
        import pyarrow as pa

        kind = self._schema.field(self.label_column).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)

    @property
    def has_bare_numbers(self) -> bool:
        """Whether labels are numbers that nothing names."""
        return not self.in_words and not self.stored_names

    @property
    def has_labels(self) -> bool:
        """Whether any row has a label: the hub writes -1 or nothing for an unknown one."""
        import pyarrow as pa

        values = self._read(self.label_column).drop_null()
        return len(values) > 0 and not (pa.types.is_integer(values.type) and bool((values.to_numpy() == -1).all()))

    def words(self) -> list[str]:
        """The labels of all rows, which are names."""
        return self._read_labels().to_pylist()

    def labels(self, classes: Sequence[str]) -> Tensor:
        """(n,) int64 labels, counted as these classes are.

        Raises:
            ValueError: a label that is none, or is the name of another class.
        """
        values = self._read_labels()
        if self.in_words:
            return self._numbered(values.to_pylist(), classes)
        labels = values.to_numpy()
        wrong = np.flatnonzero((labels < 0) | (labels >= MOST_CLASSES))
        if len(wrong):
            raise ValueError(
                f"row {wrong[0]} of {self.path} has the label {labels[wrong[0]]}: labels count from 0 to "
                "the number of classes less one."
            )
        names = self.stored_names
        if names and names != tuple(classes) and (not len(labels) or labels.max() < len(names)):
            return self._numbered([names[label] for label in labels], classes)
        return torch.from_numpy(labels.astype(np.int64))

    def _numbered(self, names: list[str], classes: Sequence[str]) -> Tensor:
        numbers = {name: number for number, name in enumerate(classes)}
        for row, name in enumerate(names):
            if name not in numbers:
                known = (
                    f"the training split has only {', '.join(classes[:20])}"
                    if classes
                    else "the training split's labels are numbers"
                )
                raise ValueError(f"row {row} of {self.path} is of the class {name!r}, and {known}.")
        return torch.tensor([numbers[name] for name in names], dtype=torch.int64)

    def _column(self, names: tuple[str, ...], others: tuple[str, ...] = ()) -> str:
        """The column of one of these names, first come first; else the only one of `others`."""
        here = {name.casefold(): name for name in reversed(self._schema.names)}
        columns = [here[name] for name in names if name in here][:1]
        columns = columns or [here[name] for name in others if name in here]
        if len(columns) > 1:
            raise ValueError(
                f"{self.path} has several columns that may be labels ({', '.join(columns)}): call the right one {names[0]!r}."
            )
        if not columns:
            raise ValueError(f"{self.path} has no column {names[0]!r}, only: {', '.join(self._schema.names)}.")
        return columns[0]

    def _read(self, column: str) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.read_table(self.path, columns=[column])[column]
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"column {column!r} of {self.path} cannot be read: {first_line(error)}") from error

    def _read_labels(self) -> Any:
        """A pyarrow array of whole numbers or words, without nulls."""
        import pyarrow as pa

        values = self._read(self.label_column)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if pa.types.is_boolean(values.type):
            values = values.cast(pa.int8())
        if not (self.in_words or pa.types.is_integer(values.type)):
            raise ValueError(
                f"column {self.label_column!r} of {self.path} has type {values.type}: labels must be integers, or names."
            )
        if values.null_count:
            row = values.is_null().to_pylist().index(True)
            raise ValueError(f"row {row} of {self.path} has no label.")
        return values

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
