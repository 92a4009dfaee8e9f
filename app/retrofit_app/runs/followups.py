"""Work on finished runs that has folders of its own, fine-tunings and landscapes: list, start, delete.

The folders are inside the run's; for shipped runs, work that was not shipped with them is in the runs folder.
"""

from pathlib import Path
from typing import Any

from retrofit_core.runs import store, worker
from retrofit_core.runs.store import FINETUNING, Kind, Work
from retrofit_core.system.files import json_of

from .records import Entry, runs_folder

#: The network of a finished fine-tuning.
TUNED = "tuned.safetensors"
CURVE_FACTS = ("networks", "history", "held_out", "trained", "epochs", "seconds")


def works_of(entry: Entry, kind: Kind) -> list[Work]:
    """All work of a kind on a run, last started first."""
    return store.works_of(kind, entry.folder, _elsewhere(entry))


def work_at(entry: Entry, kind: Kind, key: str, settings: dict[str, Any] | None = None) -> Work:
    """The work with this key, which may not exist yet."""
    return store.work_at(kind, entry.folder, key, settings, _elsewhere(entry))


def begin(entry: Entry, config: Any) -> Work:
    """Start the requested work on a run, or return it if it is done; a fine-tuning goes on after its last finished epoch.

    Args:
        config: a `store.FollowUp`: a `FinetuneConfig` or a `LandscapeConfig`.
    Raises:
        Busy: other work is running.
        ValueError: the runs folder is not writable, or the run is not finished.
    """
    wanted = work_at(entry, config.kind, config.key(entry.folder), config.to_json())
    if not config.is_done(wanted):
        words = ["--record", str(entry.folder), *config.words()]
        words += ["--device", entry.config.get("device") or "auto", "--out", str(wanted.folder)]
        words.append("--resume" if config.kind == FINETUNING else "--overwrite")
        worker.begin(worker.Job(wanted, tuple(words), entry.base, _within(entry)))
    return wanted


def is_shipped(work: Work, entry: Entry) -> bool:
    """Whether it ships with the workbench and so cannot be deleted."""
    return entry.shipped and work.folder.is_relative_to(entry.folder)


def delete(work: Work, entry: Entry) -> None:
    """Delete work, see `store.delete`; shipped work raises a ValueError, too."""
    if is_shipped(work, entry):
        raise ValueError(f"{work.words} came with the workbench and stays.")
    store.delete(work, _within(entry))


def has_network(tuning: Work) -> bool:
    """Whether the fine-tuned network exists."""
    return (tuning.folder / FINETUNING.last).exists()  # written last


def curve(tuning: Work) -> dict[str, Any]:
    """A fine-tuning's curve as its worker writes it: `networks` before and `history`, both on held-out images.

    Raises:
        ValueError: it is damaged.
    """
    return _read(tuning, FINETUNING.growing, CURVE_FACTS)


def is_unchanged(tuning: Work) -> bool:
    """Whether no epoch was better than the start on the held-out images, so that the kept network is the one before.

    Raises:
        ValueError: the curve is damaged.
    """
    history = curve(tuning)["history"]
    return bool(history) and not history[-1]["best"]


def metrics(tuning: Work) -> dict[str, Any]:
    """The fine-tuned network's metrics, as a run has them for its fused network; {} if there were no test
    images.

    Raises:
        ValueError: it is damaged.
    """
    return _read(tuning, FINETUNING.last)


def _read(tuning: Work, name: str, needed: tuple[str, ...] = ()) -> dict[str, Any]:
    try:
        content = dict(json_of(tuning.folder / name))
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{name} of the fine-tuning {tuning.name} cannot be read ({type(error).__name__}).") from error
    if missing := set(needed) - content.keys():
        raise ValueError(f"{name} of the fine-tuning {tuning.name} has no {', '.join(sorted(missing))}.")
    return content


def _within(entry: Entry) -> Path:
    """The runs folder for work on a run."""
    return runs_folder() if entry.shipped else entry.folder.parent


def _elsewhere(entry: Entry) -> Path | None:
    return runs_folder() if entry.shipped else None
