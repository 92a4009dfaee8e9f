"""Download data sets through torchvision; for the others, say how to get them by hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..system.extras import require
from ..system.files import replacing
from ..system.registry import find, first_line
from .datasets import DATASETS, recognise


def download(name: str, folder: str | Path | None = None) -> Path:
    """Fetch a data set into a folder (default: `data/NAME`); a whole archive there is not fetched again.

    Returns:
        The folder, as `load` takes it.
    Raises:
        ValueError: an unknown data set, one that has to be fetched by hand (the message says how), or no network.
    """
    key = recognise(name) or find({key: key for key in DATASETS}, name, "data set")
    if key not in SOURCES:
        hint = "nothing to download, use --data digits" if key == "digits" else DATASETS[key].advice
        raise ValueError(f"{key} is not downloaded by this command: {hint}.")
    target = Path(folder) if folder is not None else Path("data", key)
    require("torchvision", "data")
    try:
        if target.exists():  # what is whole there is kept
            SOURCES[key](target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target) as temporary:  # half a download, unpacked, would look like a whole one
                SOURCES[key](temporary)
    except (OSError, RuntimeError) as error:  # no network, a full disk; sums that differ
        first = first_line(error)
        raise ValueError(
            f"{key} could not be downloaded to {target} ({first}). Try again, or {_by_hand(key)}."
        ) from error
    return target


def _by_hand(key: str) -> str:
    return DATASETS[key].advice.partition("; or ")[2]


def _mnist(folder: Path) -> None:
    from torchvision.datasets import MNIST

    MNIST(str(folder), download=True)


def _fashion_mnist(folder: Path) -> None:
    from torchvision.datasets import FashionMNIST

    FashionMNIST(str(folder), download=True)


def _cifar10(folder: Path) -> None:
    from torchvision.datasets import CIFAR10

    _unpack(CIFAR10, folder)


def _cifar100(folder: Path) -> None:
    from torchvision.datasets import CIFAR100

    _unpack(CIFAR100, folder)


def _unpack(kind: Any, folder: Path) -> None:
    """Only torchvision's download, because its data sets then unpickle the files."""
    from torchvision.datasets.utils import download_and_extract_archive

    download_and_extract_archive(kind.url, str(folder), filename=kind.filename, md5=kind.tgz_md5)


SOURCES: dict[str, Callable[[Path], None]] = {
    "mnist": _mnist,
    "fashion-mnist": _fashion_mnist,
    "cifar10": _cifar10,
    "cifar100": _cifar100,
}
