"""Checks that commands make before slow imports."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from ..system.texts import flag

#: Settings of a run that name what it reads.
READ = ("models", "splits", "data")
TRAINING = "training.json"  # how to train a folder's missing parents; written by `runs.parents`


def check_alone(context: typer.Context, why: str, *, beside: Collection[str]) -> None:
    """Raise ValueError if a parameter is given on the command line that another one makes useless.

    Args:
        why: that of --record, for the message.
        beside: names of the parameters that may be given.
    """
    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    given += context.obj or {}  # settings of methods
    if refused := [flag(name) for name in given if name not in {"arch", *beside}]:  # --arch says which code may be run
        raise ValueError(f"{why}: omit {', '.join(refused)}.")


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


def read_by(settings: Mapping[str, Any]) -> Iterator[str | Path]:
    """What a run reads, as named by its settings; some, such as presets, are no paths."""
    for name in READ:
        value = settings.get(name)
        yield from [value] if isinstance(value, str | Path) else value or ()


def check_replaced(
    files: Iterable[Path | None], *, overwrite: bool, read: Iterable[str | Path] = (), other: str = ""
) -> None:
    """Raise ValueError if a command would overwrite what it reads, or an existing file without being told to.

    Args:
        files: what the command will write; None: nothing.
        overwrite: whether existing files may be replaced.
        read: files and folders that the command reads, which it never replaces.
        other: another way out, for the message.
    """
    read = list(read)
    for file in filter(None, files):
        for source in read:
            if Path(os.path.realpath(file)).is_relative_to(os.path.realpath(source)):
                raise ValueError(
                    f"--out {file}: this command reads {source}, and would overwrite it. Name another file."
                )
        if not overwrite and os.path.lexists(file):
            raise ValueError(
                f"--out: {file} exists. Replace it with --overwrite{f', {other}' if other else ''}, or name another."
            )


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
