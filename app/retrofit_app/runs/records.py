"""What lists and headlines need of a run's record: its small JSON files, read without torch."""

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from retrofit_core.networks.headers import metadata_of
from retrofit_core.runs.store import ACTIVE, NEW, check_schema, is_noted, read_json, state_of
from retrofit_core.system import files

BUNDLED = Path(__file__).parents[1] / "bundled"


@dataclass(frozen=True)
class Entry:
    """What lists and the headline need of a run: its small JSON files, without the levels.

    `runs.read_run` reads and checks the whole record; it needs torch and is too slow for many runs.
    """

    folder: Path
    config: dict[str, Any]
    status: dict[str, Any]
    metrics: dict[str, Any]
    shipped: bool
    training: dict[str, Any] | None
    """Its parents' TrainConfig as JSON, if the workbench or the command line trained them"""
    inputs: dict[str, str | None]
    """Digest of each file, see `runs.Identity`"""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def state(self) -> str:
        """created, running, done, failed, cancelled or interrupted, see `runs.state_of`."""
        return self.status["state"] if self.shipped else state_of(self.folder, self.status)

    @property
    def active(self) -> bool:
        """Whether a worker is on it."""
        return self.state in ACTIVE

    @property
    def analysing(self) -> bool:
        """Whether a worker is analysing this finished run."""
        return not self.shipped and is_noted(self.folder)

    @property
    def base(self) -> Path:
        """The folder its config's file names are relative to, see `home`."""
        return home(self.config, self.folder.parent, self.inputs)

    @property
    def networks(self) -> list[str]:
        """The networks it fuses: digests of their content, or names if it may train them itself."""
        return [self.inputs.get(name) or name for name in self.config["models"]]

    @property
    def accuracy(self) -> float | None:
        """The fused network's, in per cent, if it was measured."""
        return self.metrics.get("networks", {}).get("fused", {}).get("accuracy")

    @property
    def images(self) -> int:
        """On which that was measured."""
        return self.metrics.get("networks", {}).get("fused", {}).get("samples", 0)

    @property
    def version(self) -> tuple[str, float]:
        """Changes with the record; a key for caches."""
        return str(self.folder), float(self.status.get("updated", 0))


def runs_folder() -> Path:
    """RETROFIT_RUNS, or ./runs."""
    return Path(os.environ.get("RETROFIT_RUNS") or "runs").absolute()


def read_entry(folder: Path, shipped: bool = False) -> Entry:
    """The small files of a record.

    Raises:
        ValueError: one of them is missing or broken, or of another version.
    """
    try:
        content = files.json_of(folder / "config.json")
        check_schema(folder.name, content)
        config = content["config"]
        try:
            status = files.json_of(folder / "status.json")
        except FileNotFoundError:
            status = dict(NEW)
        metrics = files.json_of(folder / "metrics.json") if status["state"] == "done" else {}
        inputs = content["inputs"]
        training = (
            content["training"] if "training" in content else _training(config, home(config, folder.parent, inputs))
        )
        return Entry(folder, config, status, metrics, shipped, training, inputs)
    except (OSError, UnicodeError, json.JSONDecodeError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(unreadable(folder, error)) from error


def unreadable(folder: Path, error: Exception) -> str:
    """A sentence on a run whose files are damaged."""
    return f"run {folder.name} cannot be read ({type(error).__name__}: {error})."


def architecture(entry: Entry) -> str:
    """The architectures of its parents by name, without torch; empty if they cannot be read."""
    names = (entry.training or {}).get("arch")
    try:
        names = names or [_noted(entry.base / name, "architecture")["architecture"] for name in entry.config["models"]]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return " and ".join(dict.fromkeys(map(spec_words, names)))


def spec_words(spec: Any) -> str:
    """An architecture by name, and its widths if it is a specification, or one in JSON: "cnn 32-64-64"."""
    try:
        spec = json.loads(spec) if isinstance(spec, str) else spec
        return " ".join([spec["architecture"], "-".join(map(str, spec.get("widths", [])))]).strip()
    except (ValueError, KeyError, TypeError, AttributeError):
        return str(spec)


def _noted(checkpoint: Path, what: str) -> Any:
    """What a checkpoint's metadata say, read without torch."""
    return json.loads(_metadata(str(checkpoint), files.facts_of(checkpoint).st_mtime_ns)[what])


@lru_cache(maxsize=10_000)
def _metadata(checkpoint: str, _changed: int) -> dict[str, str]:
    with open(checkpoint, "rb") as file:
        return metadata_of(file)


def bundle_facts() -> dict[str, Any]:
    """bundle.json, which describes the shipped runs, see `bundle.build`; empty if it is missing."""
    return read_json(BUNDLED / "bundle.json")


def home(config: dict[str, Any], folder: Path | None = None, inputs: dict[str, str | None] | None = None) -> Path:
    """The folder that a config's file names are relative to, where its worker starts: that of the runs, or the one around it
    if a command made the run there and the files are there, `retrofit fuse … --record runs/NAME`.

    Args:
        folder: the runs folder.
        inputs: a record's digest of each file: a different network with a shipped one's name is not the shipped one. Without
            a digest, the bare name of a shipped file means that file, see `own_name`.
    """
    shipped = all(map(_has_shipped_name, config["models"])) and (
        inputs is None or all(inputs.get(name) in (None, files.digest(BUNDLED / name)) for name in config["models"])
    )
    if shipped:
        return BUNDLED
    beside, first = folder or runs_folder(), config["models"][0]
    return beside.parent if not (beside / first).exists() and (beside.parent / first).exists() else beside


def own_name(name: str) -> str:
    """How a config names a user's file: by its whole path if it has the name of a shipped one."""
    return str(runs_folder() / name) if _has_shipped_name(name) else name


def _has_shipped_name(name: str) -> bool:
    return len(Path(name).parts) == 1 and (BUNDLED / name).exists()


def _training(config: dict[str, Any], base: Path) -> dict[str, Any] | None:
    """training.json beside the parents; None if it is missing or unreadable."""
    training = read_json((base / config["models"][0]).parent / "training.json").get("training")
    return training if isinstance(training, dict) else None


def training_of(entry: Entry) -> Any:
    """The `TrainConfig` of a run's parents if the app or `retrofit train` made them; else None."""
    from retrofit_core.training.config import TrainConfig

    try:
        return TrainConfig.from_json(entry.training) if entry.training else None
    except ValueError:
        return None


def class_counts(entry: Entry) -> list[list[int]] | None:
    """Each parent's training images per class, from the run's splits file or else the checkpoints; None if unknown."""
    config = entry.config
    try:
        if not config.get("splits"):
            return [_counts_of(entry.base / name) for name in config["models"]]
        parts = files.json_of(entry.base / config["splits"])["parts"]
        named = {part.get("model"): part["class_counts"] for part in parts}
        return [named[Path(model).name] for model in config["models"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _counts_of(checkpoint: Path) -> list[int]:
    """A checkpoint's own class counts."""
    counts = _noted(checkpoint, "class_counts")
    if not isinstance(counts, list) or not all(isinstance(count, int) for count in counts):
        raise ValueError("the metadata name no class counts.")
    return counts
