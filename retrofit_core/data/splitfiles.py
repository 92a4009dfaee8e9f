"""A split of a data set before it is read: its files, and how to read them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .images import Content
from .sizes import Fit


@dataclass(frozen=True)
class SplitFiles:
    """A split that a format recognised in a folder; nothing is read before `read` is called.

    Attributes:
        read: channels (1 or 3) and target size -> reader, labels, shape. Formats whose images have one size may leave
            resizing to the caller.
        names: other names of the data set, beside the folder's.
        classes: class names in label order, if the files hold them.
        files: the files of the split, and folders of which all files belong to it; their content identifies the split.
    """

    read: Callable[[int, Fit | None], Content]
    names: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
