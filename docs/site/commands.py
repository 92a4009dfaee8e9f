"""The reference of the command `retrofit`: each command with its arguments and options, as `--help` has them."""

from typing import Any

import typer.main

from retrofit_core.cli import main  # noqa: F401 - registers the commands
from retrofit_core.cli.terminal import app
from retrofit_core.cli.words import words


def pages() -> dict[str, str]:
    """The one page."""
    group, known = typer.main.get_command(app), words()
    lines = [
        "# The command line",
        "",
        f"{group.help} `retrofit COMMAND --help` says the same as this page.",
    ]
    for name, command in group.commands.items():
        lines += ["", f"## {name}", "", f"```text\n{_usage(name, command)}\n```", "", str(command.help), ""]
        rows = [_row(parameter, known) for parameter in command.params if parameter.name != "help"]
        lines += ["| | default | what it is |", "| --- | --- | --- |", *rows] if rows else []
    return {"commands.md": "\n".join(lines)}


def _usage(name: str, command: Any) -> str:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    named = [f"{_name(argument)}{'...' if argument.nargs == -1 else ''}" for argument in arguments]
    shown = [word if argument.required else f"[{word}]" for argument, word in zip(arguments, named, strict=True)]
    return " ".join(["retrofit", name, *shown, "[OPTIONS]"])


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return parameter.opts[0].upper()
    return ", ".join([*parameter.opts, *parameter.secondary_opts])


def _row(parameter: Any, known: Any) -> str:
    help_text = (parameter.help or "").format_map(known)
    return f"| `{_name(parameter)}` | {_default(parameter)} | {_cell(help_text)} |"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "needed"
    value = parameter.default
    if value is None or value is False or callable(value) or value == () or "Sentinel" in type(value).__name__:
        return ""
    return f"`{value}`" if value is not True else f"`{parameter.opts[0]}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
