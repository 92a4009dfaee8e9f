"""One parquet file: columns of images and labels. Only this module imports pyarrow, an optional extra."""

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from ..system.registry import first_line
from .decoding import Encoded
from .images import counted

# Synonymous column names, in any case; the first one present is used.
IMAGE_COLUMNS = ("image", "img", "images", "jpg", "jpeg", "png", "webp")
LABEL_COLUMNS = ("label", "labels", "fine_label", "fine_labels")
# Used if there is none of LABEL_COLUMNS, and only one of these.
OTHER_LABEL_COLUMNS = ("target", "targets", "class", "class_name", "class_id", "category", "cls", "y")


class Table:
    """One parquet file: reads the schema at once, labels and encoded images on demand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._schema = pq.read_schema(path)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{path} is not a readable parquet file: {first_line(error)}") from error
        self._image_column = self._column(IMAGE_COLUMNS)
        self.label_column = self._column(LABEL_COLUMNS, OTHER_LABEL_COLUMNS)

    def encoded(self, rows: np.ndarray) -> list[Encoded]:
        """The encoded images of these rows."""
        if not len(rows):
            return []
        images = self._images.take(pa.array(rows, type=pa.int64())).to_pylist()
        for row, image in zip(rows, images, strict=True):
            if not image:
                raise ValueError(
                    f"row {row} of {self.path} has no image bytes: only images embedded in the file are read."
                )
        return [(image, f"row {row} of {self.path}") for row, image in zip(rows, images, strict=True)]

    @property
    def stored_names(self) -> tuple[str, ...]:
        """Class names in label order, from the metadata of Hugging Face's datasets library; () if absent."""
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
        kind = self._schema.field(self.label_column).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)

    @property
    def has_bare_numbers(self) -> bool:
        """Whether labels are numbers without names."""
        return not self.in_words and not self.stored_names

    @property
    def has_labels(self) -> bool:
        """Whether any row has a label: the hub writes -1 or null for unknown ones."""
        values = self._read(self.label_column).drop_null()
        return len(values) > 0 and not (pa.types.is_integer(values.type) and bool((values.to_numpy() == -1).all()))

    def words(self) -> list[str]:
        """The names that label the rows."""
        return self._read_labels().to_pylist()

    def labels(self, classes: Sequence[str]) -> Tensor:
        """(n,) int64 labels as indices into these classes.

        Raises:
            ValueError: an invalid label, or the name of another class.
        """
        values = self._read_labels()
        if self.in_words:
            return self._numbered(values.to_pylist(), classes)
        labels = values.to_numpy()
        numbers = counted(labels, str(self.path))
        names = self.stored_names
        if names and names != tuple(classes) and (not len(labels) or labels.max() < len(names)):
            return self._numbered([names[label] for label in labels], classes)
        return numbers

    def _numbered(self, names: list[str], classes: Sequence[str]) -> Tensor:
        numbers = {name: number for number, name in enumerate(classes)}
        if (row := next((row for row, name in enumerate(names) if name not in numbers), None)) is not None:
            listed = f"has only {', '.join(classes[:20])}" if classes else "has numbers as labels"
            raise ValueError(
                f"row {row} of {self.path} is of the class {names[row]!r}, and the training split {listed}."
            )
        return torch.tensor([numbers[name] for name in names], dtype=torch.int64)

    def _column(self, names: tuple[str, ...], others: tuple[str, ...] = ()) -> str:
        """The first column of these names, else the only one of `others`."""
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

    def _read(self, column: str) -> pa.ChunkedArray:
        try:
            return pq.read_table(self.path, columns=[column])[column]
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"column {column!r} of {self.path} cannot be read: {first_line(error)}") from error

    def _read_labels(self) -> pa.ChunkedArray:
        """Integers or strings, without nulls."""
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

    @cached_property
    def _images(self) -> pa.ChunkedArray:
        """Column of bytes."""
        images = self._read(self._image_column)
        if pa.types.is_struct(images.type) and images.type.get_field_index("bytes") >= 0:
            # Nulls of the struct become nulls of the field.
            images = images.flatten()[images.type.get_field_index("bytes")]
        if not (pa.types.is_binary(images.type) or pa.types.is_large_binary(images.type)):
            raise ValueError(
                f"column {self._image_column!r} of {self.path} has type {images.type}: it must be a struct "
                "with the field 'bytes' (an encoded image)."
            )
        return images
