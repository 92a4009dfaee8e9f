"""retrofit docs"""

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

from ..system.extras import require
from ..system.registry import known_name
from .application import command
from .fields import argument
from .terminal import new_table, out, say

#: Folder of the pages in an installation.
INSTALLED = "share/retrofit-workbench/docs"


@dataclass(frozen=True, kw_only=True)
class DocsRequest:
    """Parameters of `retrofit docs`."""

    page: str | None = argument(None, "A page to print in the terminal instead, such as start or troubleshooting.")


@command("docs")
def docs_command(asked: DocsRequest) -> None:
    """Build the documentation and open it in the browser. The site loads nothing from the internet.

    The command builds the site from the repository (half a minute), and again after every change. An installed wheel contains
    the pages as text: without a repository, the command lists them or prints the one that you name.

    Example: `retrofit docs own_networks`
    """
    repository = _repository()
    pages = _pages(repository)
    if asked.page is not None:
        text = pages[known_name(pages, asked.page.removesuffix(".md"), "page")].read_text(encoding="utf-8")
        if not out.is_terminal:
            return print(text)
        from rich.markdown import Markdown

        return out.print(Markdown(text))
    if repository is not None:
        return _serve(repository)
    table = new_table("page", "what it says", title="retrofit docs PAGE")
    for name, file in pages.items():
        table.add_row(name, file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# "))
    out.print(table)
    return say(
        "To build the site, with the notebooks and each method's page, run the command in a copy of the repository."
    )


def _pages(repository: Path | None) -> dict[str, Path]:
    """Pages by name: the repository's, or else the installed ones."""
    if repository is not None:
        files = list((repository / "docs").glob("*.md"))
    else:
        installed = distribution("retrofit-workbench").files or []
        files = [Path(str(file.locate())) for file in installed if file.as_posix().endswith(f"{INSTALLED}/{file.name}")]
    return {file.stem: file for file in sorted(files) if file.is_file()}


def _repository() -> Path | None:
    """The repository of this code, or of the current folder."""
    current = Path.cwd()
    for folder in (Path(__file__).parents[2], current, *current.parents):
        if (folder / "mkdocs.yml").is_file() and (folder / "retrofit_core").is_dir():
            return folder
    return None


def _serve(repository: Path) -> None:
    """Serve the pages to this machine until interrupted."""
    for package in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
        require(package, "docs")
    say("Building the pages (takes about half a minute). They will be at http://127.0.0.1:8000 (Ctrl-C stops it).")
    words = [sys.executable, "-m", "mkdocs", "serve", "--quiet", *(["--open"] if sys.stdout.isatty() else [])]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # the theme's warning about another product
    with suppress(KeyboardInterrupt):
        if subprocess.call(words, cwd=repository, env=quiet):
            raise ValueError("could not serve the pages, for the reason above.")
