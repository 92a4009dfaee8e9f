"""The reference of the command `retrofit`: each command with its arguments and options, as typer writes them."""

import re

import typer.cli
import typer.main

from retrofit_core.cli import main  # noqa: F401 - registers the commands
from retrofit_core.cli.application import app


def pages() -> dict[str, str]:
    """The one page."""
    group = typer.main.get_command(app)
    context = typer.Context(group, info_name="retrofit")
    text = typer.cli.get_docs_for_click(obj=group, ctx=context, name="retrofit", title="The command line")
    return {"commands.md": re.sub(r"^## `retrofit (\w+)`$", r"## \1", text, flags=re.MULTILINE)}
