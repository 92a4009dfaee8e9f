"""The networks that can be fused: facts about checkpoints, read once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrofit_app.figures import lettered
from retrofit_app.memory import MEBI, cached
from retrofit_core.system import files

from .sources import located


@dataclass(frozen=True)
class Checkpoint:
    """What the form shows about a network."""

    name: str
    architecture: str
    widths: str
    parameters: int
    counts: tuple[int, ...]
    """Training images per class, if the file says so"""
    accuracy: float | None
    """On held-out images, if the file says so"""
    weights: str = ""
    """The key of the weights to read, if the file has several"""


def described(name: str, arch: str = "") -> Checkpoint:
    """Facts about a checkpoint.

    Args:
        arch: its architecture if the user named it; then only the file is read, and nothing is built.
    Raises:
        ValueError: it is missing or damaged, or its architecture is unknown.
    """
    return _described(*stamped(name), arch)


def model(name: str) -> Any:
    """A checkpoint's network (shared by all sessions: do not modify it).

    Raises:
        ValueError: as `described`.
    """
    return _read(*stamped(name))[0]


def of_run(entry: Any, path: Path, images: Any) -> Any:
    """A run's network as the run read it, with classes in the order of the run's images.

    Raises:
        ValueError: as `described`; or its classes differ.
    """
    from retrofit_core.networks.checkpoints import classes_of, load_model

    config = entry.config
    order = classes_of([entry.base / name for name in config["models"]], images)
    return load_model(path, config.get("arch"), like=images, weights=config.get("weights", "auto"), classes=order)[0]


def stamped(name: str) -> tuple[str, str]:
    """A checkpoint's path and digest: a key for caches."""
    path = located(name)
    try:
        return path, files.digest(path)
    except OSError:
        return path, ""


@cached(1024 * MEBI, "Reading the checkpoint…")
def _read(path: str, content: str) -> tuple[Any, dict[str, Any]]:
    from retrofit_core.networks.checkpoints import load_model

    return load_model(path)


@cached(MEBI)
def _described(path: str, content: str, arch: str) -> Checkpoint:
    from retrofit_core.networks.checkpoints import read_metadata, read_tensors

    metadata = read_metadata(path)
    stored = metadata.get("architecture")
    if arch:
        spec = stored if isinstance(stored, dict) else {"architecture": arch}
        parameters = sum(tensor.numel() for tensor in read_tensors(Path(path)).values() if tensor.is_floating_point())
    else:
        model, metadata = _read(path, content)
        spec, parameters = metadata["architecture"], sum(value.numel() for value in model.parameters())
    counts = metadata.get("class_counts")
    return Checkpoint(
        Path(path).name,
        spec["architecture"],
        _widths(spec),
        parameters,
        tuple(counts) if isinstance(counts, list) and all(isinstance(count, int) for count in counts) else (),
        accuracy if isinstance(accuracy := metadata.get("validation_accuracy"), float) else None,
        metadata.get("weights", ""),
    )


def _widths(spec: dict[str, Any]) -> str:
    """The widths in a network's spec."""
    widths = next((spec[name] for name in ("widths", "sizes", "plan", "layers", "hidden") if name in spec), None)
    return ", ".join(str(entry) for entry in widths if entry != "M") if isinstance(widths, list) else str(widths or "")


def form_words(text: str) -> str:
    """A library error reworded for the form, which has no command-line options and names networks by letters."""
    said, named, _ = text.partition(" (also of `retrofit app`;")
    if named:
        return said.replace("name it: --arch", "start the workbench with: retrofit app --arch") + "."
    problem, advice, _ = lettered(text).partition(": name it with --arch")
    if advice:
        return f"{problem}. This form takes only what it recognises; on the command line `--arch` can name it."
    return problem.replace(
        "Pass base=NETWORK (--base FILE), or use Average.",
        "With networks of your own, name its checkpoint under Common ancestor; otherwise choose Average.",
    )
