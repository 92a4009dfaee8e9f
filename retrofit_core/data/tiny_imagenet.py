"""Tiny-ImageNet in its original layout: `wnids.txt`, `train/<id>/images/*.JPEG`, `val/images` with annotations.

Classes are the ids in sorted order, as in torchvision's ImageFolder, with names from `words.txt`. The test images have no
labels, so the validation images are the test split.
"""

from functools import partial
from pathlib import Path

from .folders import images_in, read
from .images import Content
from .sizes import Fit
from .splitfiles import SplitFiles


def find(folder: Path, split: str) -> SplitFiles | None:
    """The split's files in a folder with `wnids.txt` and `train`.

    Raises:
        ValueError: unreadable lists.
    """
    split = "val" if split == "test" else split
    if not ((folder / "wnids.txt").is_file() and (folder / "train").is_dir()):
        return None
    ids = sorted(_lines(folder / "wnids.txt"))
    if not ids or len(set(ids)) != len(ids):
        raise ValueError(f"{folder / 'wnids.txt'} must list every class id once.")
    lists = [folder / "wnids.txt", folder / "words.txt"]
    files = (*(path for path in lists if path.is_file()), folder / split)
    words = _lines(folder / "words.txt") if (folder / "words.txt").is_file() else []
    name_of = dict(line.split("\t", 1) for line in words if "\t" in line)
    classes = tuple(name_of.get(name, name) for name in ids)
    return SplitFiles(partial(_read, folder, split, ids), names=("tiny-imagenet",), classes=classes, files=files)


def _read(folder: Path, split: str, ids: list[str], channels: int, fit: Fit | None) -> Content:
    notes = folder / "val" / "val_annotations.txt"
    if split == "val" and notes.is_file():
        files, labels = _annotated(notes, ids)
        return read([[path] for path in files], labels, channels, fit)
    for name in ids:  # which may also lead out of the data set
        if Path(name).name != name or not (folder / split / name).is_dir():
            raise ValueError(
                f"{folder / split} has no folder for the class {name!r} of wnids.txt: unpack the data set again."
            )
    # Also validation images that were sorted into folders.
    return read([images_in(folder / split / name) for name in ids], range(len(ids)), channels, fit)


def _annotated(notes: Path, ids: list[str]) -> tuple[list[str], list[int]]:
    """The validation images in list order, and their labels."""
    label_of = {name: label for label, name in enumerate(ids)}
    files, labels = [], []
    for number, line in enumerate(_lines(notes), start=1):
        file, name, *_ = [*line.split("\t"), ""]
        if Path(file).name != file or name not in label_of:
            raise ValueError(
                f"line {number} of {notes} must be a file's name, a tab and one of the class ids: {line!r:.80}."
            )
        files.append(str(notes.parent / "images" / file))
        labels.append(label_of[name])
    if not files:
        raise ValueError(f"{notes} lists no images.")
    return files, labels


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}.") from error
