"""Hugging Face-style parquet files: `image` = struct{bytes, path}, `label` = integer or the class's name.

Labels are read at once; Pillow decodes images on demand, and they are cached.
"""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..system.extras import require
from ..system.files import is_hidden
from .decoding import Encoded, lazily, shape_of
from .images import MOST_CLASSES, Content
from .sizes import Fit
from .splitfiles import SplitFiles
from .splitnames import by_split, split_of

if TYPE_CHECKING:
    from .parquet_table import Table

SHARD = re.compile(r"[-_. ]*(\d+)(?:[-_. ]*of[-_. ]*(\d+))?$")


def locate(folder: Path, split: str) -> list[Path]:
    """A split's files, in order: `train.parquet`, `train-00000-of-00001.parquet` ... or `train/*.parquet`, here or in `data`.

    Raises:
        ValueError: several such names, or missing shards.
    """
    for parent in (folder, folder / "data"):
        if files := _named(parent, split):
            return files
        named = [path for path in sorted(parent.glob("*")) if split_of(path.name) == split and path.is_dir()]
        if files := _one_kind(parent, split, {path.name: files for path in named if (files := _parquets(path))}):
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


def _parquets(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.glob("*.[pP][aA][rR][qQ][uU][eE][tT]") if path.is_file() and not is_hidden(path.name)
    )


def _one_kind(parent: Path, split: str, kinds: dict[str, list[Path]]) -> list[Path]:
    """The files of the only name; [] for none.

    Raises:
        ValueError: several names, or fewer files than their names announce.
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
    """The split's parquet files in a folder; test files without labels do not count.

    Raises:
        ValueError: as in `locate`, or unreadable classes.
    """
    files = locate(folder, split)
    if not files:
        return None
    if split == "test" and not any(_table(path).has_labels for path in files):
        return None  # some data sets on the hub keep test labels secret
    training = locate(folder, "train") or files
    classes = _class_names(training)
    if _table(training[0]).in_words and (bare := [path for path in files if _table(path).has_bare_numbers]):
        raise ValueError(
            f"the labels of {bare[0]} are numbers, but those of {training[0]} are names: convert one to match the "
            "other."
        )
    return SplitFiles(partial(read, files, classes), classes=classes, files=tuple(files))


def _table(path: Path) -> "Table":
    """Open a file, reading its schema."""
    require("pyarrow", "data")
    from .parquet_table import Table

    return Table(path)


def _class_names(files: Sequence[Path]) -> tuple[str, ...]:
    """Names in label order, from metadata or labels of the training split; () if labels are bare numbers."""
    tables = [_table(path) for path in files]
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
    """Reader, labels (N,) int64 and shape (C, H, W) of the images in these files, concatenated.

    Args:
        classes: names in label order, which labels with names are mapped to; may be empty for numbers.
        channels: 1 (grey) or 3 (RGB); images are converted.
        fit: target size; without it all images must have the size of row 0.
    Raises:
        ValueError: not a parquet file, a missing column, labels that are neither class numbers nor names, no rows; on
            reading rows: an image is missing, damaged, far too large, or of another size.
    """
    tables = [_table(path) for path in files]
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
