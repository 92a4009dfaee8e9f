"""Data sets: `load` gives a split as `Images`; DATASETS holds what is known of data sets by name."""

import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from retrofit_core.data import digits, mnist, parquet
from retrofit_core.data.images import Images, Read
from retrofit_core.data.known import DATASETS, DataSet, recognise

__all__ = ["DATASETS", "DataSet", "Images", "load"]

SPLITS = ("train", "val", "test")
Source = Callable[[int], tuple[Read, Tensor, tuple[int, int, int]]]  # channels -> reader of rows, labels, (C, H, W)


def load(
    source: str | Path,
    split: str = "train",
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
) -> Images:
    """A split of a data set: "digits" (embedded), or a folder with IDX or parquet files.

    Normalisation constants come from `mean` and `std`, else from "mean" and "std" in the folder's
    `classes.json`, else from the folder's name (a key of DATASETS; case, "-" and "_" do not matter). Class
    names likewise. Images are RGB unless the data set is known to be grey. Where a data set has no test
    files, its validation files are the test split.

    Example:
        >>> images = load("digits", "test")
        >>> images.inputs([0, 1, 2]).shape
        torch.Size([3, 1, 8, 8])

    Raises:
        ValueError: no such data set or split, a file that cannot be read, labels outside the class names,
            unknown normalisation constants.
    """
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}. Known: {', '.join(SPLITS)}.")
    name, notes, read = _find(str(source), split)
    known = DATASETS.get(name)
    constants = _constants(name, known, notes, mean, std)  # first, because it is cheap to refuse
    reader, labels, shape = read(len(known.mean) if known else 3)
    return Images(reader, labels, shape, _class_names(name, known, notes, labels), name, *constants, split)


def _find(source: str, split: str) -> tuple[str, dict[str, Any], Source]:
    """A source's name, what its classes.json says, and its reader."""
    if source == "digits":
        return "digits", {}, lambda channels: digits.read(split)
    folder = Path(os.path.abspath(Path(source).expanduser()))
    if not folder.is_dir():
        raise ValueError(_missing(source, folder))
    notes = _notes(folder / "classes.json")
    splits = ("test", "val") if split == "test" else (split,)
    if files := next(filter(None, (parquet.locate(folder, name) for name in splits)), None):
        return recognise(folder.name) or folder.name, notes, partial(parquet.read, files)
    if pair := mnist.locate(folder, split):
        name = recognise(folder.name, pair[0].parent.parent.name) or folder.name
        return name, notes, lambda channels: mnist.read(*pair)
    raise ValueError(
        f"{folder} holds no {split} split: neither {split}.parquet nor IDX files such as "
        "train-images-idx3-ubyte. Give the folder that holds the data set's files."
    )


def _missing(source: str, folder: Path) -> str:
    name = recognise(source, folder.name)
    if name is None:
        return f"there is no folder {source}. Give a data set's folder, or 'digits' for the embedded one."
    return f"data set {name!r} is not at {source}: {DATASETS[name].advice}."


def _notes(path: Path) -> dict[str, Any]:
    """classes.json: a list of class names, or {"classes" or "names": [...], "mean": [...], "std": [...]}."""
    if not path.is_file():
        return {}
    try:
        notes = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not readable JSON: {error}") from error
    notes = {"classes": notes} if isinstance(notes, list) else notes
    if not isinstance(notes, dict):
        raise ValueError(f'{path} must be a list of class names or an object with "classes", "mean" and "std".')
    names = notes.get("classes", notes.get("names"))
    if names is not None and not (isinstance(names, list) and names and all(isinstance(n, str) for n in names)):
        raise ValueError(f"{path}: the class names must be a list of strings in label order.")
    return {"classes": names, "mean": notes.get("mean"), "std": notes.get("std"), "path": path}


def _constants(
    name: str, known: DataSet | None, notes: dict[str, Any], mean: Any, std: Any
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation, from the first source that has them."""
    if (mean is None) != (std is None):
        raise ValueError(f"--mean and --std belong together, only {'--std' if mean is None else '--mean'} was given.")
    if mean is None:
        mean, std = notes.get("mean"), notes.get("std")
        if (mean is None) != (std is None):
            raise ValueError(f'{notes["path"]} has only one of "mean" and "std": give both.')
    if mean is None and known:
        mean, std = known.mean, known.std
    if mean is None:
        raise ValueError(
            f"the normalisation of data set {name!r} is unknown: give --mean and --std, or write them into "
            f"its classes.json, or name the folder after a known data set ({', '.join(DATASETS)})."
        )
    return _floats(mean, "mean"), _floats(std, "std")


def _floats(values: Any, what: str) -> tuple[float, ...]:
    values = values if isinstance(values, Sequence) and not isinstance(values, str) else [values]
    if not values or not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        raise ValueError(f"{what} must be numbers, one for each channel. Found {list(values)}.")
    return tuple(float(value) for value in values)


def _class_names(name: str, known: DataSet | None, notes: dict[str, Any], labels: Tensor) -> tuple[str, ...]:
    """Names in label order; numbers where nobody named the classes."""
    highest = int(labels.max())
    names = tuple(notes.get("classes") or (known.classes if known else ()))
    names = names or tuple(str(label) for label in range(highest + 1))
    if highest >= len(names):
        row = int((labels >= len(names)).nonzero()[0])
        raise ValueError(
            f"row {row} of data set {name!r} has the label {int(labels[row])}, but it has {len(names)} "
            "classes (labels count from 0)."
        )
    return names
