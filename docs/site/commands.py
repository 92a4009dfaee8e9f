"""The reference of the command `retrofit`: each command with its arguments and options, as typer writes them."""

import re

import typer.cli
import typer.main

from retrofit_core.cli import main  # noqa: F401 - registers the commands
from retrofit_core.cli.application import app
from retrofit_core.cli.words import words


def pages() -> dict[str, str]:
    """The one page; what a help text has in braces are lists of names."""
    group, known = typer.main.get_command(app), words()
    context = typer.Context(group, info_name="retrofit")
    text = typer.cli.get_docs_for_click(obj=group, ctx=context, name="retrofit", title="The command line")
    text = re.sub(r"^## `retrofit (\w+)`$", r"## \1", text, flags=re.MULTILINE)
    return {"commands.md": re.sub(r"\{(\w+)\}", lambda found: str(known.get(found[1], found[0])), text)}
