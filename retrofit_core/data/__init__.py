"""Data sets: `load` gives a split as `Images`; DATASETS holds what is known of data sets by name."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from ..files import digest_of
from . import cifar, digits, folders, medmnist, mnist, parquet, tiny_imagenet
from .found import Found
from .images import Images
from .known import DATASETS, DataSet, plain, recognise
from .sizes import fitting, wanted_fit

__all__ = ["DATASETS", "DataSet", "Images", "digest", "load"]

SPLITS = ("train", "val", "test")
#: What reads a folder: (folder, split) -> what was found there, or None.
FORMATS: dict[str, Callable[[Path, str], Found | None]] = {
    "parquet files": parquet.find,
    "IDX files": mnist.find,
    "CIFAR-10's batches": cifar.find_10,
    "CIFAR-100's files": cifar.find_100,
    "MedMNIST's .npz": medmnist.find,
    "Tiny-ImageNet": tiny_imagenet.find,
}


def load(
    source: str | Path,
    split: str = "train",
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    size: int | None = None,
) -> Images:
    """A split of a data set: "digits" (embedded), or a folder in one of the FORMATS or with a folder of images a class.

    The bare name of a known data set also stands for `data/NAME`. Normalisation constants come from `mean` and
    `std`, else from "mean" and "std" in the folder's `classes.json`, else from the folder's name (a key of DATASETS;
    case, "-" and "_" do not matter). Class names likewise. Images are RGB unless the data set is known to be grey.
    Where a data set has no test files, its validation files are the test split.

    Args:
        size: the shorter side of each image is resized to so many pixels and the central square kept (ImageNet: resized
            to 8/7 of it). Default: the data set's own (ImageNet 224, Tiny-ImageNet 64), else images as they are,
            which must then have one size.

    Example:
        >>> images = load("digits", "test")
        >>> images.inputs([0, 1, 2]).shape
        torch.Size([3, 1, 8, 8])

    Raises:
        ValueError: no such data set or split, a file that cannot be read, labels outside the class names,
            unknown normalisation constants, images of different sizes.
    """
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}. Known: {', '.join(SPLITS)}.")
    name, notes, found = _find(str(source), split)
    known = DATASETS.get(name)
    constants = _constants(name, known, notes, mean, std)  # first, because it is cheap to refuse
    fit = wanted_fit(size, known.size if known else None, known.margin if known else 1.0)
    reader, labels, shape = fitting(found.read(len(known.mean) if known else 3, fit), fit)
    classes = _class_names(name, known, notes, found.classes, labels)
    mirrors = known.mirrors if known else True
    return Images(reader, labels, shape, classes, name, *constants, split, mirrors, _files(notes, found))


def digest(source: str | Path, split: str = "train") -> str:
    """What a split of a data set is known by: the digest of its files, classes.json included (see `files.digest_of`).

    The name of the folder belongs to it, for names and normalisation may come from that.

    Raises:
        ValueError: as `load`.
    """
    name, notes, found = _find(str(source), split)
    if not found.files:
        return "built in"
    try:
        return f"{name} {digest_of(_files(notes, found))}"
    except OSError as error:
        raise ValueError(f"{error.filename} cannot be read: {error.strerror}.") from error


def _find(source: str, split: str) -> tuple[str, dict[str, Any], Found]:
    """A source's name, what its classes.json says, and what holds the split."""
    if source == "digits":
        return "digits", {}, Found(lambda channels, fit: digits.read(split))
    folder = _folder(source)
    notes = _notes(folder / "classes.json")
    for name in ("test", "val") if split == "test" else (split,):
        every = {kind: one for kind, find in FORMATS.items() if (one := find(folder, name))}
        if len(every) > 1:
            raise ValueError(
                f"{folder} holds several data sets ({', '.join(every)}): give the folder of one, or move it into its own."
            )
        # Last, because a folder of images may be anything.
        found = next(iter(every.values()), None) or folders.find(folder, name)
        if found:
            return recognise(folder.name, *found.names) or folder.name, notes, found
    known = recognise(folder.name)
    raise ValueError(
        f"{folder} holds no {split} split: neither {split}.parquet nor IDX files such as train-images-idx3-ubyte, CIFAR's "
        f"or MedMNIST's files, nor a folder of images for each class. "
        + (f"For {known}, {DATASETS[known].advice}." if known else "Give the folder that holds the data set's files.")
    )


def _files(notes: dict[str, Any], found: Found) -> tuple[Path, ...]:
    """All that a split is made of, its classes.json included; nothing for what is built in."""
    return (*([notes["path"]] if notes and found.files else []), *found.files)


def _folder(source: str) -> Path:
    """The folder meant: the path itself, else `data/NAME` for a data set's bare name."""
    folder = Path(os.path.abspath(Path(source).expanduser()))
    if folder.is_dir():
        return folder
    name = recognise(source, folder.name)
    if name is None:
        raise ValueError(f"there is no folder {source}. Give a data set's folder, or 'digits' for the embedded one.")
    usual = Path("data", name)
    if plain(source) == plain(name) and usual.is_dir():
        return usual.absolute()
    raise ValueError(f"data set {name!r} is not at {source}: {DATASETS[name].advice}.")


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


def _class_names(
    name: str, known: DataSet | None, notes: dict[str, Any], found: tuple[str, ...], labels: Tensor
) -> tuple[str, ...]:
    """Names in label order: from classes.json, the files or what is known; numbers where nobody named the classes."""
    highest = int(labels.max())
    names = tuple(notes.get("classes") or found or (known.classes if known else ()))
    names = names or tuple(str(label) for label in range(highest + 1))
    if found and len(names) != len(found):
        raise ValueError(f"{notes['path']} names {len(names)} classes, but the data set has {len(found)}.")
    if highest >= len(names):
        row = int((labels >= len(names)).nonzero()[0])
        raise ValueError(
            f"row {row} of data set {name!r} has the label {int(labels[row])}, but it has {len(names)} "
            "classes (labels count from 0)."
        )
    return names
