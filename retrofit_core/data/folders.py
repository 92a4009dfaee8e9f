"""Folders of images, one per class: `train/<class>/*` next to `val` or `test`, or `<class>/*` alone.

Rows are in the order of torchvision's ImageFolder: classes by name, then files by path. Unlike it, this follows no links
inside a class (it would read a circle forty times), and ignores hidden files and folders (`files.is_hidden`).
"""

import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ..system.files import is_hidden, walk
from .decoding import Encoded, on_demand, shape_of
from .images import Content
from .sampling import drawn_fifths
from .sizes import Fit
from .splitfiles import NAMES, SplitFiles

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")


def find(folder: Path, split: str) -> SplitFiles | None:
    """A split's class folders.

    A folder without splits is divided here: the test split is one fifth of every class, drawn with a fixed seed.

    Raises:
        ValueError: folders that are not classes, look like splits, or cannot be read.
    """
    splits = {name: subfolders_of(folder / name) for names in NAMES.values() for name in names}
    if any(splits.values()):
        classes = next((splits[name] for name in NAMES[split] if splits[name]), [])
        names, part = [path.name for path in splits["train"] or classes], None
        if unknown := sorted({path.name for path in classes} - set(names)):
            raise ValueError(
                f"{classes[0].parent} has the class folder {unknown[0]!r}, but {folder / 'train'} has not."
            )
    else:
        classes, part = ([] if split == "val" else subfolders_of(folder)), split
        names = [path.name for path in classes]
        if not any(map(_has_image, classes)):
            return None
        if all(name.lower().startswith(tuple(NAMES)) for name in names):
            raise ValueError(
                f"{' and '.join(map(repr, names))} in {folder} look like splits: call them train, val and test, and put the "
                "images of each class into a folder of its own within."
            )
    if not classes:
        return None
    if len(names) < 2:
        raise ValueError(
            f"{classes[0].parent} has the single class folder {names[0]!r}: give the folder whose subfolders are the classes."
        )
    return SplitFiles(partial(_read, classes, names, part), classes=tuple(names), files=tuple(classes))


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

    return on_demand(len(paths), shape, fit, encoded), numbers, shape


def images_in(folder: Path) -> list[str]:
    """The images in a folder and its subfolders, in order, without following links to folders.

    Raises:
        ValueError: no images, or something unreadable.
    """
    paths = []
    for parent, names in sorted(walk(folder, _refuse)):
        paths += [os.path.join(parent, name) for name in names if os.path.splitext(name)[1].lower() in SUFFIXES]
    if not paths:
        raise ValueError(f"class folder {folder} holds no images ({', '.join(SUFFIXES)}): add images or remove it.")
    return paths


def _read(folders: list[Path], names: Sequence[str], part: str | None, channels: int, fit: Fit | None) -> Content:
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
    names = (name for _, names in walk(folder, _refuse) for name in names)  # without hidden ones
    return any(os.path.splitext(name)[1].lower() in SUFFIXES for name in names)


def _refuse(error: OSError) -> None:
    raise ValueError(f"{error.filename} cannot be read: {error.strerror}.") from error
