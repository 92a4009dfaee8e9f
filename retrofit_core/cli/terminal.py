"""Output of commands: sentences, tables, JSON and shell commands to run next."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from ..networks import user_code
from ..runs.config import RunConfig
from ..system.texts import option_words
from ..training.config import TrainConfig

if TYPE_CHECKING:
    from ..data import Images

# Without markup and emoji codes, which names of files, classes and networks may contain: a file run[a].safetensors, a class [/].
out, err = (Console(stderr=stderr, markup=False, emoji=False) for stderr in (False, True))


def say(*words: object, to: Console = out) -> None:
    """Print a sentence; the terminal wraps it."""
    to.print(*words, soft_wrap=True, highlight=False)


def say_normalisation(config: RunConfig, models: Sequence[str | Path], images: "Images") -> None:
    """Print the normalisation if checkpoints do not state it: a wrong one lowers accuracy without an error."""
    from ..networks.checkpoints import read_metadata

    silent = [Path(model).name for model in models if config.mean is None and "mean" not in read_metadata(model)]
    if silent:
        values = "; ".join(f"{name} {', '.join(map(str, getattr(images, name)))}" for name in ("mean", "std"))
        say(
            f"Normalisation: {values}, of {images.name}. {', '.join(silent)} does not record its own. If it was "
            "trained with another, these accuracies are wrong: pass --mean and --std."
        )


def shell(*words: object) -> str:
    """Words as a shell command, quoted as needed."""
    return shlex.join(map(str, words))


def say_next(*words: object) -> None:
    """Print the command that usually follows."""
    say("Next:", shell(*words))


def networks_table(networks: dict[str, dict[str, Any]]) -> Table:
    table = new_table("network", "accuracy %", "loss", "calibration error")
    for name, value in networks.items():
        table.add_row(name, f"{value['accuracy']:.2f}", f"{value['loss']:.3f}", f"{value['calibration_error']:.3f}")
    return table


def new_table(*columns: str, title: str = "", figures: bool = False) -> Table:
    """A table for 80 columns whose first column is not wrapped; with `figures`, it is, and the others are not."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, no_wrap=(index == 0) != figures)
    return table


def print_json(content: dict[str, Any]) -> None:
    print(json.dumps(content, indent=1, default=str))


def pixel_words(config: RunConfig | TrainConfig) -> list[str]:
    """Options for reading the images in the same way in the next command."""
    return option_words(config, without=vars(config).keys() - {"mean", "std", "size"})


def arch_words(archs: Sequence[str | None]) -> list[str]:
    """The option that allows user code of these architectures in the next command."""
    names = dict.fromkeys(name for arch in archs for name in user_code.names_in(arch))
    return ["--arch", ",".join(names)] if names else []
