"""Folders of images, one per class: `train/<class>/*` next to `val` or `test`, or `<class>/*` alone.

Splits may have any name in `splitnames` and be inside wrapping folders, see `wrapped`. Rows are in the order of
torchvision's ImageFolder: classes by name, then files by path. Class folders may have subfolders. Hidden files
(`files.is_hidden`) are ignored at any depth.
"""

import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ..system.files import is_hidden, walk
from .decoding import Encoded, lazily, shape_of
from .images import Content
from .sampling import drawn_fifths
from .sizes import Fit
from .splitfiles import SplitFiles
from .splitnames import by_split, split_of

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
# Image formats that are not decoded here.
OTHER_SUFFIXES = (".tif", ".tiff", ".gif", ".ppm", ".pgm", ".heic", ".jp2", ".jfif", ".avif", ".tga")
MOST_WRAPPERS = 8  # nested folders to search for a data set


def find(places: Sequence[Path], split: str) -> SplitFiles | None:
    """A split's class folders.

    A folder without splits is divided here: the test split is one fifth of every class, drawn with a fixed seed.

    Args:
        places: the data set's folder, and those that it wraps (`wrapped`), which may contain splits.
    Raises:
        ValueError: folders that are not classes, may be splits or classes, or cannot be read.
    """
    if splits := next((splits for place in places if (splits := _splits_in(place))), {}):
        classes, part = _classes_in(splits, split), None
        names = _classes(_classes_in(splits, "train") or classes) if classes else ()
        if unknown := sorted({path.name for path in classes} - set(names)):
            raise ValueError(
                f"{classes[0].parent} has the class folder {unknown[0]!r}, but {splits['train'][0]} has not."
            )
    else:
        classes, part = subfolders_of(places[0]), split
        with_images = [path for path in classes if _has_image(path)]
        if not with_images:
            return None
        _check_are_classes(places[0], with_images)
        names = _classes(classes) if split != "val" else ()
    if not names:
        return None
    return SplitFiles(partial(_read, classes, names, part), classes=names, files=tuple(classes))


def wrapped(folder: Path) -> list[Path]:
    """The folder and, as in unpacked zip files, the chain of only subfolders in it (or only ones with images)."""
    places = [folder]
    while len(places) < MOST_WRAPPERS:
        inner = [path for path in places[-1].glob("*/") if not is_hidden(path.name)]
        inner = [path for path in inner if len(inner) == 1 or _has_image(path)]
        if len(inner) != 1:
            break
        places += inner
    return places


def _splits_in(folder: Path) -> dict[str, list[Path]]:
    """Split -> the subfolders with its name that have subfolders themselves.

    Raises:
        ValueError: only one split, next to folders of images that are not splits: it may be a class.
    """
    subfolders = subfolders_of(folder)
    paths = {path.name: path for path in subfolders if subfolders_of(path)}
    splits = {split: [paths[name] for name in names] for split, names in by_split(paths).items()}
    if len(splits) == 1:
        (of_split,) = splits.values()
        others = [path for path in subfolders if path not in of_split and not split_of(path.name)]
        if other := next((path.name for path in others if _has_image(path)), None):
            raise ValueError(
                f"{folder} has the folder {of_split[0].name!r}, which may be a split, or a class next to {other!r}: "
                f"move class folders into a folder 'train', or remove {other!r}."
            )
    return splits


def _classes_in(splits: dict[str, list[Path]], split: str) -> list[Path]:
    """The class folders of a split, also if it is nested under its own name (training_set/training_set/<class>).

    Raises:
        ValueError: several folders have a name of this split.
    """
    folders = splits.get(split, [])
    if len(folders) > 1:
        names = " and ".join(repr(path.name) for path in folders)
        raise ValueError(f"{folders[0].parent} has several {split} splits, {names}: keep one of them there.")
    if not folders:
        return []
    classes = subfolders_of(folders[0])
    while len(classes) == 1 and split in by_split([classes[0].name], lone=True) and subfolders_of(classes[0]):
        classes = subfolders_of(classes[0])
    return classes


def _check_are_classes(folder: Path, with_images: list[Path]) -> None:
    """Refuse splits in place of classes.

    Raises:
        ValueError: splits without class folders, or folders that contain splits themselves.
    """
    names = [path.name for path in with_images]
    as_splits = by_split(names, lone=True)
    if sum(map(len, as_splits.values())) == len(names) and (len(as_splits) > 1 or len(names) == 1):
        raise ValueError(
            f"{' and '.join(map(repr, names))} in {folder} may be splits or classes: call splits train, val and "
            "test, and put the images of each class into a folder of its own within."
        )
    for path in with_images:
        inner = by_split(each.name for each in subfolders_of(path))
        if len(inner) > 1:
            listed = ", ".join(repr(name) for group in inner.values() for name in group)
            raise ValueError(
                f"{path} contains its own splits ({listed}), so it is not a class: give that folder, or sort the "
                "images as SPLIT/CLASS/FILE."
            )


def read(files: list[list[str]], labels: Iterable[int], channels: int, fit: Fit | None) -> Content:
    """Reader, labels and shape of image files.

    Args:
        files: one list of files per label.
    Raises:
        ValueError: row 0 is damaged; on reading rows: an image is missing, damaged, far too large, or of another size
            than row 0 without a `fit`.
    """
    paths = [path for group in files for path in group]
    counts = torch.tensor([len(group) for group in files])
    numbers = torch.repeat_interleave(torch.tensor(list(labels), dtype=torch.int64), counts)
    shape = shape_of((paths[0], paths[0]), channels, fit)

    def encoded(rows: np.ndarray) -> list[Encoded]:
        return [(paths[row], paths[row]) for row in rows]

    return lazily(len(paths), shape, fit, encoded), numbers, shape


def images_in(folder: Path) -> list[str]:
    """The images in a folder and its subfolders, in order, without following links to folders.

    Raises:
        ValueError: no images, images in an unsupported format, or something unreadable.
    """
    paths = []
    for parent, names in sorted(walk(folder, _refuse)):
        for name in names:
            suffix = os.path.splitext(name)[1].lower()
            if suffix in OTHER_SUFFIXES:
                raise ValueError(f"{parent}/{name} is no {', '.join(SUFFIXES)}: convert or remove it.")
            if suffix in SUFFIXES:
                paths.append(os.path.join(parent, name))
    if not paths:
        raise ValueError(f"class folder {folder} holds no images ({', '.join(SUFFIXES)}): add images or remove it.")
    return paths


def _read(folders: list[Path], names: tuple[str, ...], part: str | None, channels: int, fit: Fit | None) -> Content:
    """All images of these class folders, or only those of "train" or "test"."""
    files = [images_in(folder) for folder in folders]
    if part is not None:
        fifths = drawn_fifths(map(len, files))
        files = [
            [path for path, is_test in zip(group, fifth, strict=True) if is_test == (part == "test")]
            for group, fifth in zip(files, fifths, strict=True)
        ]
    if not any(files):
        raise ValueError(f"{folders[0].parent} has too few images for a {part} split: five images of a class give one.")
    return read(files, [names.index(folder.name) for folder in folders], channels, fit)


def subfolders_of(folder: Path) -> list[Path]:
    """Folders and links to folders, by name, without hidden ones.

    Raises:
        ValueError: one cannot be read, or a broken link.
    """
    try:
        if not folder.is_dir():
            return []
        with os.scandir(str(folder)) as entries:  # distinguishes folders without a stat of a million files
            visible = sorted((entry for entry in entries if not is_hidden(entry.name)), key=lambda entry: entry.name)
        for entry in visible:
            if entry.is_symlink() and not os.path.exists(entry.path):
                raise ValueError(f"{entry.path} is a link that is broken or points to itself: remove it.")
        return [folder / entry.name for entry in visible if entry.is_dir()]
    except OSError as error:
        _refuse(error)
        raise


def _has_image(folder: Path) -> bool:
    found = (name for _, names in walk(folder, _refuse) for name in names)  # without hidden ones
    return any(os.path.splitext(name)[1].lower() in SUFFIXES + OTHER_SUFFIXES for name in found)


def _classes(folders: list[Path]) -> tuple[str, ...]:
    """Names of class folders.

    Raises:
        ValueError: only one class.
    """
    names = tuple(path.name for path in folders)
    if len(names) < 2:
        raise ValueError(
            f"{folders[0].parent} has the single class folder {folders[0].name!r}: give the folder whose "
            "subfolders are the classes."
        )
    return names


def _refuse(error: OSError) -> None:
    raise ValueError(f"{error.filename} cannot be read: {error.strerror}.") from error
