"""What a new fusion can be made of: data sets on this machine, and uploaded checkpoints in the runs folder."""

import hashlib
import json
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_core import files

UPLOADS = "uploads"
LARGEST_UPLOAD = 256 * 2**20  # bytes, as maxUploadSize in .streamlit/config.toml
LARGEST_HEADER = 2**20  # of an uploaded checkpoint: that of a VGG16 has 4 kB
#: Folders with data sets, besides `data` beside the runs folder; separated as in PATH.
VARIABLE = "RETROFIT_DATA"


@dataclass(frozen=True)
class Facts:
    """What the form shows of a data set."""

    name: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    train: int
    test: int

    @property
    def inputs(self) -> int:
        """Values in an image."""
        channels, height, width = self.shape
        return channels * height * width


def data_folders() -> list[Path]:
    """Where data sets are looked for: `data` beside the runs folder, and what RETROFIT_DATA names."""
    named = [Path(word) for word in os.environ.get(VARIABLE, "").split(os.pathsep) if word]
    return [runs.runs_folder().parent / "data", *named]


def data_sets() -> list[str]:
    """ "digits", and every folder in the data folders, written as configs name them."""
    paths = [path for folder in data_folders() if folder.is_dir() for path in sorted(folder.iterdir())]
    return ["digits", *[named(path) for path in paths if path.is_dir() and not path.name.startswith(".")]]


def named(path: str | Path) -> str:
    """A path as a config names it: relative to the runs folder, where workers start, if it lies beside that."""
    path = Path(os.path.abspath(Path(path).expanduser()))
    beside = runs.runs_folder().parent
    return os.path.relpath(path, runs.runs_folder()) if path.is_relative_to(beside) else str(path)


def located(name: str) -> str:
    """The inverse of `named`, for this process; "digits" is no path."""
    return name if name == "digits" else os.path.normpath(runs.runs_folder() / Path(name).expanduser())


def changed(name: str) -> float:
    """When a data set's folder or an entry of it last changed: the key of caches.

    A folder of a million images is not walked for every click.
    """
    if name == "digits":
        return 0.0
    folder = located(name)
    try:
        return max(os.stat(folder).st_mtime, *(entry.stat().st_mtime for entry in os.scandir(folder)))
    except (OSError, TypeError):  # TypeError: nothing is in it
        return 0.0


@st.cache_resource(max_entries=8, show_spinner="Looking at the data set…")
def _loaded(name: str, mean: tuple[float, ...], std: tuple[float, ...], size: int, changed: float) -> tuple[Any, Any]:
    from retrofit_core.data import load

    options = (mean or None, std or None, size or None)
    return load(located(name), "train", *options), load(located(name), "test", *options)


def images(picks: Any, split: str = "train") -> Any:
    """A split ("train" or "test") of the picks' data set (shared by all sessions: do not change it).

    Raises:
        ValueError: it is not there, or something in it is missing or damaged.
    """
    both = _loaded(picks.data, picks.mean, picks.std, picks.size, changed(picks.data))
    return both[split == "test"]


def facts(picks: Any) -> Facts:
    """Numbers of a data set.

    Raises:
        ValueError: as `images`.
    """
    train, test = _loaded(picks.data, picks.mean, picks.std, picks.size, changed(picks.data))
    return Facts(train.name, tuple(train.classes), tuple(train.shape), len(train), len(test))


# --- checkpoints ----------------------------------------------------------------------------------


def keep(content: bytes) -> str:
    """Store an uploaded checkpoint under the hash of its content and return its name as configs have it.

    The file's name is ignored, and nothing in it is executed: safetensors are a JSON header and numbers.

    Raises:
        ValueError: too large, not safetensors by its header, or the runs folder cannot be written to.
    """
    check(content)
    name = f"{UPLOADS}/{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    path = runs.runs_folder() / name
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write(path, content)
        except OSError as error:
            raise ValueError(f"the upload cannot be kept in the runs folder ({error.strerror}).") from error
    return name


def form_words(text: str) -> str:
    """An error of the library in words for the form, which has no command line's options."""
    problem, advice, _ = text.partition(": name it with --arch")
    return (
        f"{problem}. On the command line `--arch` can name it; this form takes what it recognises." if advice else text
    )


def is_upload(name: str) -> bool:
    """Whether a config's name is one that `keep` gave."""
    return re.fullmatch(rf"{UPLOADS}/[0-9a-f]{{16}}\.safetensors", name) is not None


def forget(name: str) -> None:
    """Delete an upload; other names are left alone."""
    if is_upload(name):
        (runs.runs_folder() / name).unlink(missing_ok=True)


def check(content: bytes) -> None:
    """Check size and header of an upload: whoever sends the bytes can leave out the browser's checks.

    Raises:
        ValueError: naming what is wrong.
    """
    if len(content) > LARGEST_UPLOAD:
        raise ValueError(f"it has {len(content) / 2**20:.0f} MiB; the limit is {LARGEST_UPLOAD // 2**20} MiB.")
    length = struct.unpack("<Q", content[:8])[0] if len(content) >= 8 else 0
    if not 2 <= length <= min(LARGEST_HEADER, len(content) - 8):
        raise ValueError("it is not a safetensors file: no header of a sensible length comes first.")
    try:
        header = json.loads(content[8 : 8 + length])
        ends = [int(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        raise ValueError("it is not a safetensors file: its header is damaged.") from None
    if not ends or max(ends) != len(content) - 8 - length:
        raise ValueError("it is incomplete: its header announces another length. Copy it again.")


@dataclass(frozen=True)
class Checkpoint:
    """What the form shows of one of the networks to be fused."""

    name: str
    architecture: str
    widths: str
    parameters: int
    counts: tuple[int, ...]
    """Training images per class, where the file says so"""
    accuracy: float | None
    """On held-out images, where the file says so"""


@st.cache_resource(max_entries=8, show_spinner="Reading the checkpoint…")
def _read(path: str, content: str) -> tuple[Any, dict[str, Any]]:
    from retrofit_core.checkpoints import load_model

    return load_model(path)


@st.cache_data(max_entries=32, show_spinner=False)
def _described(path: str, content: str) -> Checkpoint:
    model, metadata = _read(path, content)
    spec = metadata["architecture"]
    counts = metadata.get("class_counts")
    return Checkpoint(
        Path(path).name,
        spec["architecture"],
        _widths(spec),
        sum(value.numel() for value in model.parameters()),
        tuple(counts) if isinstance(counts, list) and all(isinstance(count, int) for count in counts) else (),
        accuracy if isinstance(accuracy := metadata.get("validation_accuracy"), float) else None,
    )


def described(name: str) -> Checkpoint:
    """Facts of a checkpoint.

    Raises:
        ValueError: it is missing or damaged, or its architecture is unknown.
    """
    return _described(*stamped(name))


def model(name: str) -> Any:
    """The network of a checkpoint (shared by all sessions: do not change it).

    Raises:
        ValueError: as `described`.
    """
    return _read(*stamped(name))[0]


def stamped(name: str) -> tuple[str, str]:
    """A checkpoint's path and the digest of its content: the key of caches."""
    path = located(name)
    try:
        return path, files.digest(path)
    except OSError:
        return path, ""


def _widths(spec: dict[str, Any]) -> str:
    """The numbers of a spec that say how wide a network is."""
    widths = next((spec[name] for name in ("widths", "sizes", "plan", "layers", "hidden") if name in spec), None)
    return ", ".join(str(entry) for entry in widths if entry != "M") if isinstance(widths, list) else str(widths or "")
