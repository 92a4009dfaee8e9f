"""A split of a data set before reading: its files, and how to read them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .images import Content
from .sizes import Fit


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
