"""CIFAR-10 and CIFAR-100 as their authors publish them: pickles, read by torchvision.

A pickle is a program. These are trusted because torchvision compares the MD5 of each file with that of the publication before it
loads one. Files with any other content are never loaded.
"""

import warnings
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ..system.extras import require
from .images import Content, in_memory
from .sizes import Fit
from .splitfiles import SplitFiles

#: Data set -> its class in torchvision.datasets, the folder in its archive, and the files of each split.
PUBLISHED = {
    "cifar10": (
        "CIFAR10",
        "cifar-10-batches-py",
        {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)},
    ),
    "cifar100": ("CIFAR100", "cifar-100-python", {"train": ("train",), "test": ("test",)}),
}


def find(name: str, folder: Path, split: str) -> SplitFiles | None:
    """A split's files of one of PUBLISHED, in the folder or in the archive's folder."""
    _, inner, splits = PUBLISHED[name]
    for candidate in (folder, folder / inner):
        paths = tuple(candidate / file for file in splits.get(split, ()))
        is_named = candidate.name == inner or (candidate / "meta").is_file()
        # Require all files: other data sets may have a file `train`.
        if paths and is_named and all(path.is_file() for path in paths):
            return SplitFiles(partial(read, name, candidate, split), names=(name,), files=paths)
    return None


def read(name: str, folder: Path, split: str, channels: int = 3, fit: Fit | None = None) -> Content:
    """Reader of pixels (N, 3, 32, 32) uint8, labels (N,) int64 (CIFAR-100's fine ones) and the shape.

    Raises:
        ValueError: a file is missing, or differs from the published one.
    """
    require("torchvision", "data")
    from torchvision import datasets
    from torchvision.datasets.utils import check_integrity

    source = getattr(datasets, PUBLISHED[name][0])
    here = type(source.__name__, (source,), {"base_folder": ""})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy no longer likes how its first versions wrote a dtype
            stored = here(folder, train=split == "train")
    except RuntimeError as error:
        published = [*source.train_list, *source.test_list, (source.meta["filename"], source.meta["md5"])]
        others = [file for file, md5 in published if not check_integrity(folder / file, md5)]
        raise ValueError(
            f"{folder / others[0]} is not the published file (its MD5 differs, or it is missing), and it is a pickle, so it "
            f"is not loaded: torchvision.datasets.{source.__name__}(FOLDER, download=True) downloads all files; or convert yours "
            "to parquet."
        ) from error
    pixels = np.ascontiguousarray(stored.data.transpose(0, 3, 1, 2))  # torchvision has the channels last
    return in_memory(torch.from_numpy(pixels), torch.tensor(stored.targets))
