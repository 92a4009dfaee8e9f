"""Folders of images, one per class: `train/<class>/*` next to `val` or `test`.

Rows are in the order of torchvision's ImageFolder: classes by name, then files by path. Unlike it, this follows no links
inside a class (it would read a circle forty times), and ignores hidden files and folders (`files.is_hidden`).
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ..system.files import is_hidden, walk
from .decoding import Encoded, on_demand, shape_of
from .images import Content
from .sizes import Fit
from .splitfiles import NAMES, SplitFiles

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")


def find(folder: Path, split: str) -> SplitFiles | None:
    """A split's class folders.

    Raises:
        ValueError: folders that are not classes, or cannot be read.
    """
    classes = next(filter(None, (subfolders_of(folder / name) for name in NAMES[split])), [])
    if not classes:
        return None
    names = [path.name for path in subfolders_of(folder / "train") or classes]
    if unknown := sorted({path.name for path in classes} - set(names)):
        raise ValueError(f"{classes[0].parent} has the class folder {unknown[0]!r}, but {folder / 'train'} has not.")
    if len(names) < 2:
        raise ValueError(
            f"{classes[0].parent} has the single class folder {names[0]!r}: give the folder whose subfolders are the classes."
        )
    return SplitFiles(partial(read, classes, names), classes=tuple(names), files=tuple(classes))


def read(folders: list[Path], names: Sequence[str], channels: int, fit: Fit | None) -> Content:
    """Reader, labels and shape of the images in class folders.

    Args:
        names: of all classes, in label order.
    Raises:
        ValueError: no images of a class, or row 0 is damaged; on reading rows: an image is missing, damaged, far too large, or
            of another size than row 0 without a `fit`.
    """
    files = [images_in(folder) for folder in folders]
    paths = [path for group in files for path in group]
    labels = torch.tensor([names.index(folder.name) for folder in folders])
    numbers = labels.repeat_interleave(torch.tensor([len(group) for group in files]))
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


def _refuse(error: OSError) -> None:
    raise ValueError(f"{error.filename} cannot be read: {error.strerror}.") from error
