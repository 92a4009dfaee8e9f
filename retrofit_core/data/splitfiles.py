"""A split of a data set before reading: its files, how to read them, and the splits that a process has read."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from ..system.files import stamps
from .images import Content
from .sizes import Fit, fitting

#: Split -> the names of its files and folders.
NAMES = {"train": ("train",), "val": ("val", "validation"), "test": ("test",)}
#: How many splits are kept: those used last.
KEPT = 4

_kept: dict[Hashable, Content] = {}
_lock = Lock()


@dataclass(frozen=True)
class SplitFiles:
    """A split that a format found in a folder, not yet read.

    Attributes:
        read: channels (1 or 3) and target size -> reader, labels, shape. Formats whose images have one size may leave
            resizing to the caller.
        names: other names of the data set besides the folder's.
        classes: class names in label order, if the files have them.
        files: files of the split, and folders that belong to it entirely; their content identifies the split.
    """

    read: Callable[[int, Fit | None], Content]
    names: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()


def read_once(files: SplitFiles, split: str, channels: int, fit: Fit | None) -> Content:
    """A split's content, resized to fit. Its labels are a copy; its reader is shared, and returns copies of pixels.

    Built-in data and what `stamps` cannot tell apart are read again every time.

    Raises:
        ValueError: as in `SplitFiles.read`.
    """
    try:
        state = stamps(files.files)
    except OSError:  # reading says what is wrong
        state = None
    if not state:
        return fitting(files.read(channels, fit), fit)
    key = (state, split, files.classes, channels, fit)
    with _lock:
        content = _kept.pop(key, None) or fitting(files.read(channels, fit), fit)
        _kept[key] = content
        if len(_kept) > KEPT:
            del _kept[next(iter(_kept))]
    reader, labels, shape = content
    return reader, labels.clone(), shape
