"""Merge files of `retrofit fuse`: its options as JSON, to publish and repeat a merge.

JSON because the standard library reads and writes it: YAML would be a dependency, and the library writes no TOML.
"""

import inspect
import json
from pathlib import Path
from typing import Annotated

import typer

from ..system.files import write
from ..system.registry import known_name
from ..system.texts import read_value
from .method_options import all_settings

#: Options that say how to run a command, not what to merge.
LEFT_OUT = ("recipe", "write_recipe", "resume", "overwrite", "json")


def _take(context: typer.Context, file: Path | None) -> Path | None:
    """Use the options of a merge file as defaults, so that the command checks them like its own."""
    if file is None:
        return None
    try:
        options = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(options, dict):
            raise ValueError("it holds no JSON object of options")
        own = {entry.name: entry for entry in context.command.params if entry.name and entry.name not in LEFT_OUT}
        names = own if options.keys() <= own.keys() else {**own, **all_settings()}
        options = {known_name(names, name, "option"): value for name, value in options.items()}
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        said = str(error)
        raise typer.BadParameter(f"{file}: {said}{'' if said.endswith(('.', '?')) else '.'}") from error
    context.default_map = {name: value for name, value in options.items() if name in own}
    told = {name: value for name, value in options.items() if name not in own}
    told = {name: read_value(value) if isinstance(value, str) else value for name, value in told.items()}
    context.obj = {**told, **context.obj}
    return file


RECIPE = inspect.Parameter(
    "recipe",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        Path | None,
        typer.Option(
            help="A merge file: a JSON object of this command's options by name, such as models, method and out. Options "
            "on the command line come first. File names are relative to the current folder.",
            callback=_take,
            is_eager=True,
        ),
    ],
)


def write_recipe(file: Path, context: typer.Context) -> None:
    """Write the options of a command, except its defaults; the method is always named."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}
    options = {
        name: value
        for name, value in {**context.params, **context.obj}.items()
        if name in {*given, "method", *context.obj} and name not in LEFT_OUT
    }
    write(file, json.dumps(options, indent=1, default=str) + "\n")
