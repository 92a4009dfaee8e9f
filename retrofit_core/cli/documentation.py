"""retrofit docs"""

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from rich.text import Text

from ..system.extras import require
from ..system.registry import known_name
from ..system.settings import Range, setting
from .application import command
from .commands import LAST_PORT, free_port
from .fields import argument
from .terminal import new_table, out, say

#: Folder of the pages in an installation.
INSTALLED = "share/retrofit-workbench/docs"


@dataclass(frozen=True, kw_only=True)
class DocsRequest:
    """Parameters of `retrofit docs`."""

    page: str | None = argument(None, "A page to print in the terminal instead, such as start or troubleshooting.")
    port: int = setting(8510, "Port on this machine. If it is in use, the next free one.", Range(1, LAST_PORT))
    browser: bool = setting(True, "Open the default browser.")
    build: bool = setting(False, "Write the site to a folder and exit, without serving it.")
    out: Path | None = setting(None, "Folder for --build. Default: build/site in the repository.")


@command("docs")
def docs_command(asked: DocsRequest) -> None:
    """Build the documentation and open it in the browser. The site loads nothing from the internet.

    The command builds the site from the repository (half a minute), and again after every change. An installed wheel contains
    the pages as text: without a repository, the command lists them or prints the one that you name.

    Example: `retrofit docs own_networks`
    """
    repository = _repository()
    if asked.page is not None:
        return _print(known_name(pages := _pages(repository), asked.page.removesuffix(".md"), "page"), pages)
    if repository is None and not asked.build and (pages := _pages(None)):
        return _list(pages)
    if repository is None:
        raise ValueError(
            "the site is built from the repository, which an installed wheel does not contain. Run the command in a "
            "copy of the repository, or read the installed help: `retrofit docs`, `retrofit --help`, `retrofit "
            "methods NAME`, and in Python `help(retrofit_core.fuse)`."
        )
    return _build(repository, asked.out) if asked.build else _serve(repository, asked)


def _pages(repository: Path | None) -> dict[str, Path]:
    """Pages by name: the repository's, or else the installed ones."""
    if repository is not None:
        files = list((repository / "docs").glob("*.md"))
    else:
        try:
            installed = distribution("retrofit-workbench").files or []
        except PackageNotFoundError:
            installed = []
        files = [Path(str(file.locate())) for file in installed if file.as_posix().endswith(f"{INSTALLED}/{file.name}")]
    return {file.stem: file for file in sorted(files) if file.is_file()}


def _list(pages: dict[str, Path]) -> None:
    """Print a table of the pages."""
    table = new_table("page", "what it says", title="retrofit docs PAGE")
    for name, file in pages.items():
        table.add_row(name, file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# "))
    out.print(table)
    out.print(
        "To build the site, with the notebooks and a page for each method, run `retrofit docs` in a copy of the "
        "repository."
    )


def _print(name: str, pages: dict[str, Path]) -> None:
    """Print a page: rendered in a terminal, raw elsewhere."""
    text = pages[name].read_text(encoding="utf-8")
    if not out.is_terminal:
        return print(text)
    from rich.markdown import Markdown

    return out.print(Markdown(text))


def _repository() -> Path | None:
    """The repository of this code, or of the current folder."""
    current = Path.cwd()
    for folder in (Path(__file__).parents[2], current, *current.parents):
        if (folder / "mkdocs.yml").is_file() and (folder / "retrofit_core").is_dir():
            return folder
    return None


def _build(repository: Path, folder: Path | None) -> None:
    """Build all pages into a folder.

    Raises:
        ValueError: the folder holds something else, or the build fails.
    """
    site = (folder or repository / "build" / "site").absolute()
    if site.is_dir() and any(site.iterdir()) and not (site / "search" / "search_index.json").exists():
        raise ValueError(
            f"{site} contains other files than a built site, and building would delete them. Choose a new folder."
        )
    done = _mkdocs(repository, "build", "--strict", "--site-dir", str(site), capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"could not build the pages: {(done.stdout + done.stderr).strip()[-2000:]}")
    say(f"The pages are in {site}.")


def _serve(repository: Path, asked: DocsRequest) -> None:
    """Serve the pages to this machine until interrupted."""
    address = f"127.0.0.1:{free_port(asked.port)}"
    opened = ["--open"] if asked.browser and sys.stdout.isatty() else []
    out.print(Text.assemble("They will be at ", (f"http://{address}", "bold"), " (Ctrl-C stops it)."))
    with suppress(KeyboardInterrupt):
        if _mkdocs(repository, "serve", "--quiet", "--dev-addr", address, *opened).returncode:
            raise ValueError("could not serve the pages, for the reason above.")


def _mkdocs(repository: Path, *words: str, **options: Any) -> subprocess.CompletedProcess:
    for package in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
        require(package, "docs")
    say("Building the pages (takes about half a minute).")
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # the theme's warning about another product
    return subprocess.run([sys.executable, "-m", "mkdocs", *words], cwd=repository, env=quiet, **options)
