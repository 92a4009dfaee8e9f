"""Checks that commands make before slow imports."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path

import typer

from ..system.texts import flag

TRAINING = "training.json"  # how to train a folder's missing parents; written by `training.parents`


def check_alone_with_record(context: typer.Context, of_record: Collection[str]) -> None:
    """Raise ValueError if a parameter is given that the record determines.

    Args:
        of_record: their names.
    """
    if given := [words for name, words in _given(context).items() if name in of_record]:
        raise ValueError(f"--record determines the networks and the data: omit {', '.join(given)}.")


def check_alone_with_resume(context: typer.Context, beside: Collection[str]) -> None:
    """Raise ValueError if settings are given with --resume, which takes those of the record.

    Args:
        beside: names of parameters that may be given with it.
    """
    if given := [words for name, words in _given(context).items() if name not in beside]:
        raise ValueError(
            f"--resume uses the settings in the record, so {', '.join(given)} would have no effect. Omit them, or "
            "start a new run without --resume."
        )


def _given(context: typer.Context) -> dict[str, str]:
    """Parameters given on the command line: name -> words for a sentence."""
    arguments = {"models": "the checkpoints", "model": "the checkpoint"}
    sources = {name: context.get_parameter_source(name) for name in context.params}
    on_line = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    return {name: arguments.get(name, flag(name)) for name in on_line}


def check_checkpoints(paths: Sequence[Path | str]) -> None:
    """Raise ValueError if a checkpoint is missing and its folder has no training.json for retraining it."""
    for path in map(Path, paths):
        if not path.exists() and not (path.parent / TRAINING).exists():
            raise ValueError(f"there is no checkpoint at {path}.")


def check_output(out_file: Path | None, record: Path | None) -> None:
    """Raise ValueError early if an output cannot be written."""
    if out_file is None and record is None:
        raise ValueError("name an output for the fused network: --out FILE.safetensors, or --record FOLDER.")
    if out_file is not None:
        if out_file.suffix != ".safetensors":
            raise ValueError(
                f"--out {out_file}: checkpoints are saved in safetensors format. Use a name that ends in .safetensors."
            )
        parent = out_file.absolute().parent
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise ValueError(f"--out {out_file}: the folder {parent} does not exist or cannot be written to.")
    check_folder(record, "--record")


def check_folder(folder: Path | None, option: str) -> None:
    """Raise ValueError early if a folder cannot be made or written to; None is allowed."""
    if folder is None:
        return
    existing = folder.absolute()
    while not existing.exists() and not existing.is_symlink():
        existing = existing.parent
    if not existing.is_dir():
        raise ValueError(f"{option} {folder}: {existing} is not a folder. Name a new or an existing folder.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(f"{option} {folder}: the folder {existing} cannot be written to. Name another one.")
