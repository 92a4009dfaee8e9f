"""Start runs and their analyses, and delete runs."""

from pathlib import Path
from typing import Any

from retrofit_core.runs import store, worker
from retrofit_core.runs.store import FUSION, Work

from .listing import entries, same_work
from .records import home, read_entry, runs_folder


def start(config: Any, training: Any = None, folder: Path | None = None) -> Path:
    """Start a run, or return the finished or running one of the same work.

    Args:
        config: a `runs.RunConfig`; for file names see `home`.
        training: its parents' `TrainConfig`, which writes its networks and splits, if the worker should train the missing ones.
        folder: the runs folder.
    Returns:
        The run's folder, which may be a shipped one.
    Raises:
        Busy: another run is in progress.
        ValueError: a checkpoint is missing, or the runs folder is not writable.
    """
    from retrofit_core.runs import create, record_folder

    folder = (folder or runs_folder()).absolute()
    wanted = config.to_json()
    base = home(wanted, folder)
    if training is None:
        _check_files(wanted, base)
    if same := same_work(config, entries(folder)[0], base):  # write nothing, not even a lock
        return same.folder
    with store.alone(folder):
        if same := _existing(config, folder, base):
            return same
        record = record_folder(folder, config, base)
        if training is not None:
            _note_training(training, folder)
        _check_files(wanted, base)
        create(record, config, base)
        _fuse(record, base)
    return record


def run_again(folder: Path) -> Path:
    """Run one that ended early again, with its recorded settings; its trained networks stay.

    Raises:
        Busy: another run is in progress.
        ValueError: the record is unreadable, a checkpoint is missing, or the folder is not writable.
    """
    from retrofit_core.runs import create, read_config

    folder = folder.absolute()
    config = read_config(folder)
    base = read_entry(folder).base
    with store.alone(folder.parent):
        if same := _existing(config, folder.parent, base):
            return same
        _check_files(config.to_json(), base)
        create(folder, config, base)
        _fuse(folder, base)
    return folder


def _fuse(record: Path, base: Path) -> None:
    """Start a record's worker, which first trains missing parents as training.json describes."""
    worker.launch(worker.Job(Work(FUSION, record), ("--record", str(record)), base, record.parent))


def _existing(config: Any, folder: Path, base: Path) -> Path | None:
    """The finished or running run of this work.

    Raises:
        Busy: there is none, and other work is running.
    """
    if same := same_work(config, entries(folder)[0], base):
        return same.folder
    worker.check_idle(folder)
    return None


def _note_training(training: Any, folder: Path) -> None:
    """Write training.json beside the parents; the worker trains missing ones from it."""
    from retrofit_core.runs.parents import read_training, write_training

    parents = folder / training.folder
    recorded = read_training(parents)
    if recorded is None:
        parents.mkdir(parents=True, exist_ok=True)
        write_training(training, parents)
    elif recorded != training:
        raise ValueError(f"{training.folder} holds the parents of another training. Remove that folder.")


def _check_files(config: dict[str, Any], base: Path) -> None:
    """Refuse networks that a worker could neither read nor train."""
    for name in config["models"]:
        path = base / name
        if not path.exists() and not (path.parent / "training.json").exists():
            raise ValueError(
                f"there is no checkpoint {name} in the runs folder. Train the networks again, or choose others."
            )


def delete(folder: Path) -> None:
    """Delete a run, see `store.delete`."""
    store.delete(Work(FUSION, folder), folder.parent)
