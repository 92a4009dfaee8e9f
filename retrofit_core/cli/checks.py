"""What commands refuse before they import anything that takes seconds."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path

import typer

from ..system.texts import flag

TRAINING = "training.json"  # says in a folder how its missing parents are trained; `training.parents` writes it


def check_alone_with_record(context: typer.Context, of_record: Collection[str]) -> None:
    """Refuse parameters of a command that the record says already, if they were given.

    Args:
        of_record: their names.
    """
    if given := [words for name, words in _given(context).items() if name in of_record]:
        raise ValueError(f"--record has networks and data of its own: leave {', '.join(given)} out.")


def check_alone_with_resume(context: typer.Context, beside: Collection[str]) -> None:
    """Refuse settings beside --resume: a resumed run has its record's, and others would be ignored.

    Args:
        beside: names of parameters that may be given with it.
    """
    if given := [words for name, words in _given(context).items() if name not in beside]:
        raise ValueError(
            f"--resume takes the settings of its record, so {', '.join(given)} would have no effect. Leave that "
            "out, or start a new run without --resume."
        )


def _given(context: typer.Context) -> dict[str, str]:
    """The parameters that stand on the command line, by name, as sentences call them."""
    arguments = {"models": "the checkpoints", "model": "the checkpoint"}
    sources = {name: context.get_parameter_source(name) for name in context.params}
    on_line = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    return {name: arguments.get(name, flag(name)) for name in on_line}


def check_checkpoints(paths: Sequence[Path | str]) -> None:
    """Refuse checkpoints that are not there, before anything that takes seconds is imported.

    Those that a training.json in their folder can bring back are left to the run.
    """
    for path in map(Path, paths):
        if not path.exists() and not (path.parent / TRAINING).exists():
            raise ValueError(f"there is no checkpoint at {path}.")


def check_output(out_file: Path | None, record: Path | None) -> None:
    """Refuse outputs that could not be written, before minutes of work."""
    if out_file is None and record is None:
        raise ValueError("say where the fused network goes: --out FILE.safetensors, or --record FOLDER.")
    if out_file is not None:
        if out_file.suffix != ".safetensors":
            raise ValueError(
                f"--out {out_file}: checkpoints are written as safetensors, so end the name in .safetensors."
            )
        parent = out_file.absolute().parent
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise ValueError(f"--out {out_file}: the folder {parent} does not exist or cannot be written to.")
    check_folder(record, "--record")


def check_folder(folder: Path | None, option: str) -> None:
    """Refuse a folder that cannot be made or written to, before minutes of work; none is fine."""
    if folder is None:
        return
    existing = folder.absolute()
    while not existing.exists() and not existing.is_symlink():  # up to the first parent folder that exists
        existing = existing.parent
    if not existing.is_dir():
        raise ValueError(f"{option} {folder}: {existing} is not a folder. Name a new folder, or one that is there.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(f"{option} {folder}: the folder {existing} cannot be written to. Name another one.")
