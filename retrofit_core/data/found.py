"""What a file format answers when it is asked for a split of a folder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .images import Content
from .sizes import Fit


@dataclass(frozen=True)
class Found:
    """A split that a format has found; nothing is read before `read` is called.

    Fields:
        read: channels (1 or 3) and wanted size -> reader, labels, shape. Formats whose images have one size may leave
            the size to their caller.
        names: what else the data set may be called, beside the folder's name.
        classes: class names in label order, where the files tell them.
        files: the files, and folders with all files in them, that make the split: what its content is known by.
    """

    read: Callable[[int, Fit | None], Content]
    names: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
