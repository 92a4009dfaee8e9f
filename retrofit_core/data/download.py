"""Download data sets through torchvision (`python -m retrofit_core.data.download NAME`); say how to get others by hand."""

import sys
from pathlib import Path

from ..system.extras import require
from ..system.files import replacing
from ..system.registry import find, first_line
from .datasets import DATASETS, recognise

#: Data set -> its class in torchvision.datasets.
SOURCES = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST", "cifar10": "CIFAR10", "cifar100": "CIFAR100"}


def download(name: str, folder: str | Path | None = None) -> Path:
    """Download a data set into a folder (default: `data/NAME`); keeps a complete archive.

    Returns:
        The folder, for `load`.
    Raises:
        ValueError: unknown data set, one to download by hand (the message says how), or no network.
    """
    key = recognise(name) or find({key: key for key in DATASETS}, name, "data set")
    if key not in SOURCES:
        if key == "digits":
            raise ValueError(
                "digits is installed with scikit-learn, so there is nothing to download. Use --data digits."
            )
        raise ValueError(f"{key} is not downloaded: {DATASETS[key].advice}.")
    target = Path(folder) if folder is not None else Path("data", key)
    require("torchvision", "data")
    try:
        if target.exists():  # keep complete files
            _fetch(key, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target) as temporary:  # a partial download, unpacked, would look complete
                _fetch(key, temporary)
    except (OSError, RuntimeError) as error:  # no network, full disk, wrong checksum
        first, by_hand = first_line(error), DATASETS[key].advice.partition("; or ")[2]
        raise ValueError(f"{key} could not be downloaded to {target} ({first}). Try again, or {by_hand}.") from error
    return target


def _fetch(key: str, folder: Path) -> None:
    from torchvision import datasets

    getattr(datasets, SOURCES[key])(str(folder), download=True)


if __name__ == "__main__":
    try:
        download(*sys.argv[1:])
    except (ValueError, TypeError) as error:
        sys.exit(f"Error: {error}" if isinstance(error, ValueError) else f"Name a data set: {', '.join(DATASETS)}.")
