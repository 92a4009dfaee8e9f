"""Folders of images, one folder a class: `train/<class>/*` with `val` or `test` beside it, or `<class>/*` alone.

Rows are numbered as by torchvision's ImageFolder: classes by name, then files by path. Images may lie in folders of
their own below a class's.
"""

import os
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from .decoding import Encoded, lazily, shape_of
from .images import Content
from .sizes import Fit
from .splitfiles import SplitFiles

SPLITS = ("train", "val", "test")
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
OTHER_SUFFIXES = (".tif", ".tiff", ".gif", ".ppm", ".pgm", ".heic", ".jp2")  # images, but not decoded here
SEED = 0  # of the split of a folder that has none, which is the same on every machine


def find(folder: Path, split: str) -> SplitFiles | None:
    """A split's class folders.

    A folder without `train` is divided here: one fifth of every class, drawn with a fixed seed, is the test split.

    Raises:
        ValueError: folders that are no classes, or cannot be read.
    """
    if any(_subfolders(folder / name) for name in SPLITS):
        class_folders = _subfolders(folder / split)
        names = _classes(_subfolders(folder / "train") or class_folders)
        if not class_folders:
            return None
        unknown = sorted({path.name for path in class_folders} - set(names))
        if unknown:
            raise ValueError(f"{folder / split} has the class folder {unknown[0]!r}, but {folder / 'train'} has not.")
        return SplitFiles(partial(_read, class_folders, names, None), classes=names, files=tuple(class_folders))
    classes = _subfolders(folder)
    if split == "val" or not any(_has_image(path) for path in classes):
        return None
    return SplitFiles(
        partial(_read, classes, _classes(classes), split), classes=_classes(classes), files=tuple(classes)
    )


def read(files: list[list[str]], labels: Iterable[int], channels: int, fit: Fit | None) -> Content:
    """Reader, labels and shape of image files.

    Args:
        files: one list of files for each of the labels.
    Raises:
        ValueError: row 0 is damaged; when rows are read: an image that is missing, damaged, far too large, or of
            another size than row 0 if none is given.
    """
    paths = [path for group in files for path in group]
    counts = torch.tensor([len(group) for group in files])
    numbers = torch.repeat_interleave(torch.tensor(list(labels), dtype=torch.int64), counts)
    shape = shape_of((paths[0], paths[0]), channels, fit)

    def encoded(rows: np.ndarray) -> list[Encoded]:
        return [(paths[row], paths[row]) for row in rows]

    return lazily(len(paths), shape, fit, encoded), numbers, shape


def images_in(folder: Path) -> list[str]:
    """The images in a folder and the folders below it, in order; links to folders are not followed there.

    Raises:
        ValueError: no images, images of a format that is not decoded, or something that cannot be read.
    """
    paths = []
    for parent, _, names in sorted(os.walk(folder, onerror=_refuse)):
        for name in sorted(names):
            suffix = os.path.splitext(name)[1].lower()
            if name.startswith("."):
                continue
            if suffix in OTHER_SUFFIXES:
                raise ValueError(f"{parent}/{name} is no {', '.join(SUFFIXES)}: convert it or take it out.")
            if suffix in SUFFIXES:
                paths.append(os.path.join(parent, name))
    if not paths:
        raise ValueError(f"class folder {folder} holds no images ({', '.join(SUFFIXES)}): fill it or take it out.")
    return paths


def _read(folders: list[Path], names: tuple[str, ...], part: str | None, channels: int, fit: Fit | None) -> Content:
    """All images of these class folders, or the part of them that belongs to "train" or "test"."""
    files = [images_in(folder) for folder in folders]
    if part is not None:
        draw = np.random.default_rng(SEED)
        files = [_part(group, part, draw) for group in files]
    if not any(files):
        raise ValueError(f"{folders[0].parent} has too few images for a {part} split: five of a class give one.")
    return read(files, [names.index(folder.name) for folder in folders], channels, fit)


def _part(files: list[str], part: str, draw: np.random.Generator) -> list[str]:
    in_test = np.zeros(len(files), dtype=bool)
    in_test[draw.permutation(len(files))[: round(len(files) / 5)]] = True
    return [path for path, test in zip(files, in_test, strict=True) if test == (part == "test")]


def _subfolders(folder: Path) -> list[Path]:
    """Folders and links to folders, by name; hidden ones are left out.

    Raises:
        ValueError: one that cannot be read, or a link that leads nowhere.
    """
    try:
        entries = sorted(folder.iterdir()) if folder.is_dir() else []
        for path in entries:
            if path.is_symlink() and not path.exists():
                raise ValueError(f"{path} is a link that leads nowhere, or to itself: take it out.")
        return [path for path in entries if path.is_dir() and not path.name.startswith(".")]
    except OSError as error:
        _refuse(error)
        raise


def _has_image(folder: Path) -> bool:
    return any(
        os.path.splitext(name)[1].lower() in SUFFIXES
        for _, _, names in os.walk(folder, onerror=_refuse)
        for name in names
    )


def _classes(folders: list[Path]) -> tuple[str, ...]:
    """Their names.

    Raises:
        ValueError: a single class, names that differ by case only, or links that make one folder part of another.
    """
    names = tuple(path.name for path in folders)
    if len(names) < 2:
        raise ValueError(
            f"{folders[0].parent} has the single class folder {folders[0].name!r}: give the folder whose "
            "subfolders are the classes."
        )
    seen: dict[str, str] = {}
    for name in names:
        if other := seen.get(name.casefold()):
            raise ValueError(
                f"class folders {other!r} and {name!r} of {folders[0].parent} differ by case only: rename one."
            )
        seen[name.casefold()] = name
    real = sorted((list(path.resolve().parts), path.name) for path in folders)
    for (outer, first), (inner, second) in pairwise(real):
        if inner[: len(outer)] == outer:
            raise ValueError(
                f"class folder {second!r} of {folders[0].parent} lies within class {first!r}: take out the link."
            )
    return names


def _refuse(error: OSError) -> None:
    raise ValueError(f"{error.filename} cannot be read: {error.strerror}.") from error
