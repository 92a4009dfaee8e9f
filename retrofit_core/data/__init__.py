"""Data sets: `load` returns a split as `Images`; DATASETS describes the known data sets."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from torch import Tensor

from ..system.files import digest_of, json_of
from . import cifar, digits, folders, medmnist, mnist, parquet
from .datasets import DATASETS, DataSet, plain, recognise
from .images import Constants, Images, check_images, normalisation
from .sizes import Fit, fit_to
from .splitfiles import NAMES, SplitFiles, read_once

#: Environment variable with folders of data sets, besides ./data; separated as in PATH.
VARIABLE = "RETROFIT_DATA"
#: Splits that may replace another one, in order of preference.
STAND_INS = {"test": ("test", "val")}
#: Functions that look for a split in a folder: (folder, split) -> its files, or None.
FORMATS: tuple[Callable[[Path, str], SplitFiles | None], ...] = (
    parquet.find,
    mnist.find,
    partial(cifar.find, "cifar10"),
    partial(cifar.find, "cifar100"),
    medmnist.find,
)


def load(
    source: str | Path,
    split: str = "train",
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    size: int | None = None,
    *,
    stored: Callable[[], Constants | None] | None = None,
) -> Images:
    """Load a split of a data set: "digits" (embedded), or a folder in one of the FORMATS or with one folder of images per class.

    The bare name of a known data set also means NAME in one of `data_folders`. Normalisation constants come from `mean` and
    `std`, else from "mean" and "std" in the folder's `classes.json`, else from the folder's name (a key of DATASETS;
    case, "-" and "_" do not matter), else from `stored`, else from the training images (`normalisation`). Class names come
    from the folder likewise, else they are the numbers of the training labels, even if another split lacks some. Images are
    RGB unless DATASETS or `classes.json` say that they are grey. If a data set has no test files, its validation files are
    the test split.

    Args:
        split: "train", "val" or "test".
        size: resize the shorter side of each image to this and keep the central square (ImageNet: resize to 8/7 of it).
            Default: the data set's own (ImageNet 224, Tiny-ImageNet 64), else keep images as they are, which must then
            have one size.
        stored: returns the mean and std that a network was trained with; called if the data set has none.

    Examples:
        >>> images = load("digits", "test")
        >>> images.inputs([0, 1, 2]).shape
        torch.Size([3, 1, 8, 8])

    Raises:
        ValueError: no such data set or split, a file that cannot be read, labels outside the class names,
            unknown normalisation constants and no training images to measure them on, images of different sizes, a test
            image of a class that the training split cannot have.
    """
    split = _split_name(split)
    name, notes, split_files = _find(str(source), split)
    dataset = DATASETS.get(name)
    constants = _constants(dataset, notes, mean, std, stored)  # first, because it is cheap to refuse
    fit = fit_to(size, dataset.size if dataset else None, dataset.margin if dataset else 1.0)
    reader, labels, shape = read_once(split_files, split, len(dataset.mean) if dataset else notes.channels, fit)
    classes = _class_names(name, dataset, notes, split_files.classes)
    classes = classes or tuple(map(str, range(_classes_trained(str(source), split, labels, fit))))
    _check_labels(name, split, labels, classes)
    constants = constants or _measured(name, str(source), size)
    mirrors = dataset.mirrors if dataset else True
    return Images(reader, labels, shape, classes, name, *constants, split, mirrors, split_files.files)


def has_split(source: str | Path, split: str) -> bool:
    """Whether `load` finds this split; reads only names and lists.

    Raises:
        ValueError: no such data set, or it cannot be read.
    """
    split = _split_name(split)
    if str(source) == "digits":
        return split != "val"
    return _files_of(_folder(str(source)), *STAND_INS.get(split, (split,))) is not None


def digest(source: str | Path, split: str = "train") -> str:
    """Digest of the content of a split: its files, including classes.json (see `files.digest_of`).

    It contains the folder's name, which may set class names and normalisation.

    Raises:
        ValueError: as in `load`.
    """
    name, _, split_files = _find(str(source), _split_name(split))
    if not split_files.files:
        return "built in"
    try:
        return f"{name} {digest_of(split_files.files)}"
    except OSError as error:
        raise ValueError(f"{error.filename} cannot be read: {error.strerror}.") from error


def _split_name(split: str) -> str:
    """Raises ValueError: not the name of a split."""
    if split not in NAMES:
        raise ValueError(f"unknown split {split!r}. Known: {', '.join(NAMES)}.")
    return split


@dataclass(frozen=True)
class Notes:
    """The content of a folder's classes.json; empty if there is none."""

    classes: tuple[str, ...] = ()
    """In label order"""
    mean: object = None
    std: object = None
    channels: int = 3
    path: Path | None = None


def _find(source: str, split: str) -> tuple[str, Notes, SplitFiles]:
    """A source's name, its notes, and the split's files, including classes.json; none for built-in data.

    Raises:
        ValueError: no such data set or split; or as the finders in FORMATS.
    """
    if source == "digits":
        return "digits", Notes(), SplitFiles(lambda channels, fit: digits.read(split))
    folder = _folder(source)
    path = folder / "classes.json"
    notes = _notes(path) if path.is_file() else Notes()
    if split_files := _files_of(folder, *STAND_INS.get(split, (split,))):
        name = recognise(folder.name, *split_files.names) or folder.name
        return name, notes, replace(split_files, files=(*([notes.path] if notes.path else []), *split_files.files))
    name = recognise(folder.name)
    others = [other for other in NAMES if other != split and _files_of(folder, other)]
    if others and not name:
        raise ValueError(
            f"{folder} holds no {split} split, only {' and '.join(others)}. Add the missing images as {split}/CLASS/FILE or "
            f"{split}.parquet."
        )
    raise ValueError(
        f"{folder} holds no {split} split: neither {split}.parquet nor IDX files such as train-images-idx3-ubyte, CIFAR's "
        f"or MedMNIST's files (such as bloodmnist_64.npz), nor a folder of images for each class. "
        + (f"For {name}, {DATASETS[name].advice}." if name else "Give the folder that holds the data set's files.")
    )


def _files_of(folder: Path, *splits: str) -> SplitFiles | None:
    """The files of the first of these splits that a format finds; folders of images come last, because they could be anything."""
    finders = (*FORMATS, folders.find)
    return next((files for split in splits for find in finders if (files := find(folder, split))), None)


def data_folders() -> list[Path]:
    """Folders that contain data sets by name: ./data, and those in RETROFIT_DATA."""
    listed = os.environ.get(VARIABLE, "").split(os.pathsep)
    return [Path("data"), *(Path(folder).expanduser() for folder in listed if folder)]


def _folder(source: str) -> Path:
    """The folder of a source: the path itself, else NAME in one of `data_folders` for a data set's bare name."""
    folder = Path(os.path.abspath(Path(source).expanduser()))
    if folder.is_dir():
        return folder
    name = recognise(source, folder.name)
    if name is None:
        raise ValueError(f"there is no folder {source}. Give a data set's folder, or 'digits' for the embedded one.")
    usual = next((parent / name for parent in data_folders() if (parent / name).is_dir()), None)
    if plain(source) == plain(name) and usual is not None:
        return usual.absolute()
    raise ValueError(f"data set {name!r} is not at {source}: {DATASETS[name].advice}.")


def _notes(path: Path) -> Notes:
    """classes.json: a list of class names, or {"classes": [...], "mean": [...], "std": [...], "channels": 1}."""
    try:
        content = json_of(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not readable JSON: {error}") from error
    facts = content if isinstance(content, dict) else {"classes": content}
    names, channels = facts.get("classes", []), facts.get("channels", 3)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or channels not in (1, 3):
        raise ValueError(
            f'{path} must be a list of class names in label order, or an object with "classes", "mean", "std" and "channels", 1 '
            "(grey) or 3 (colour)."
        )
    return Notes(tuple(names), facts.get("mean"), facts.get("std"), int(channels), path)


def channel_advice(images: Images) -> str:
    """Advice if a network takes one channel and images have three; "" if it would not help."""
    if images.shape[0] == 1 or images.name in DATASETS:
        return ""
    return ' To read grey images with one channel, write {"channels": 1} into classes.json in their folder.'


def _constants(
    dataset: DataSet | None,
    notes: Notes,
    mean: float | Sequence[float] | None,
    std: float | Sequence[float] | None,
    stored: Callable[[], Constants | None] | None,
) -> Constants | None:
    """Mean and standard deviation from the first source that has them; None if they must be measured."""
    if (mean is None) != (std is None):
        raise ValueError(f"--mean and --std belong together, only {'--std' if mean is None else '--mean'} was given.")
    if (notes.mean is None) != (notes.std is None) and mean is None:
        raise ValueError(f'{notes.path} has only one of "mean" and "std": give both.')
    pairs: list[tuple[object, object]] = [(mean, std), (notes.mean, notes.std)]
    pairs += [(dataset.mean, dataset.std)] if dataset else []
    first = next((pair for pair in pairs if pair[0] is not None), None) or (stored() if stored else None)
    return (_floats(first[0], "mean"), _floats(first[1], "std")) if first else None


def _measured(name: str, source: str, size: int | None) -> Constants:
    """Measure the constants on the training images; the error names a damaged one."""
    try:
        content = digest(source, "train")
    except ValueError as error:
        raise ValueError(
            f"the normalisation of data set {name!r} is unknown, and cannot be measured on its training images: {error} Give "
            f"--mean and --std, or write them into its classes.json, or name the folder after a known data set "
            f"({', '.join(DATASETS)})."
        ) from error
    return _of_training_images(source, content, size)


@lru_cache(maxsize=16)
def _of_training_images(source: str, content: str, size: int | None) -> Constants:
    fit = fit_to(size, None, 1.0)
    _, notes, split_files = _find(source, "train")
    reader, labels, (channels, _, _) = read_once(split_files, "train", notes.channels, fit)
    return normalisation(reader, len(labels), channels)


def _floats(values: object, what: str) -> tuple[float, ...]:
    listed = values if isinstance(values, Sequence) and not isinstance(values, str) else [values]
    floats = [float(value) for value in listed if isinstance(value, int | float) and not isinstance(value, bool)]
    if not floats or len(floats) < len(listed):
        raise ValueError(f"{what} must be numbers, one for each channel. Found {list(listed)}.")
    return tuple(floats)


def _class_names(name: str, dataset: DataSet | None, notes: Notes, in_files: tuple[str, ...]) -> tuple[str, ...]:
    """Names in label order, from classes.json, the files or DATASETS; () if none has them."""
    known = dataset.classes if dataset else ()
    if in_files and [*map(plain, in_files)] == [*map(plain, known)]:
        in_files = known  # files differ in spaces and case ("T - shirt / top")
    names = notes.classes or in_files or known
    if in_files and len(names) != len(in_files):
        raise ValueError(f"{notes.path} names {len(names)} classes, but the data set has {len(in_files)}.")
    return names


def _classes_trained(source: str, split: str, labels: Tensor, fit: Fit | None) -> int:
    """Number of classes by the labels of the training split, or of this split if there is none."""
    if split != "train" and source != "digits":
        training = _files_of(_folder(source), "train")
        labels = read_once(training, "train", 3, fit)[1] if training else labels
    return int(labels.max()) + 1


def _check_labels(name: str, split: str, labels: Tensor, classes: tuple[str, ...]) -> None:
    if int(labels.max()) >= len(classes):
        row = int((labels >= len(classes)).nonzero()[0])
        where = "" if split == "train" else f"the {split} split of "
        raise ValueError(
            f"row {row} of {where}data set {name!r} has the label {int(labels[row])}, but it has {len(classes)} "
            "classes (labels count from 0)."
        )
