"""retrofit docs"""

import os
import shutil
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

#: Sources of the pages, besides mkdocs.yml.
SOURCES = (
    "docs",
    "retrofit_core",
    "app/retrofit_app/learn",
    "notebooks/*.ipynb",
    "benchmarks/*.py",
    "benchmarks/results",
    "CHANGELOG.md",
    "CITATION.cff",
    "LICENSE",
)

#: A file that identifies a built site.
MARK = "search/search_index.json"
#: Folder of the pages in an installation.
INSTALLED = "share/retrofit-workbench/docs"


@dataclass(frozen=True, kw_only=True)
class DocsRequest:
    """Parameters of `retrofit docs`."""

    page: str | None = argument(None, "A page to print in the terminal instead, such as start or troubleshooting.")
    port: int = setting(8510, "Port on this machine. If it is in use, the next free one.", Range(1, LAST_PORT))
    browser: bool = setting(True, "Open the default browser.")
    build: bool = setting(False, "Build the site and exit, without serving it.")
    out: Path | None = setting(None, "Folder for the built site. Default: build/site in the repository.")


@command("docs")
def docs_command(asked: DocsRequest) -> None:
    """Build the documentation and open it in the browser. The site loads nothing from the internet.

    The command builds the site from the repository, and rebuilds it after changes. An installed wheel contains the
    pages as text: without a repository, the command lists them or prints the one that you name.

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
    site = (asked.out or repository / "build" / "site").absolute()
    if asked.build or _is_stale(site, repository):
        _build(site, repository)
    say(f"The pages are in {site}.")
    return None if asked.build else _serve(site, asked.port, asked.browser)


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


def _is_stale(site: Path, repository: Path) -> bool:
    """Whether the site is missing or older than its sources."""
    try:
        built = (site / "index.html").stat().st_mtime
    except OSError:
        return True
    files = [repository / "mkdocs.yml"]
    for source in SOURCES:
        for path in repository.glob(source):
            files += path.rglob("*") if path.is_dir() else [path]
    return any(path.stat().st_mtime > built for path in files if path.is_file() and path.suffix != ".pyc")


def _build(site: Path, repository: Path) -> None:
    """Build all pages into a folder.

    Raises:
        ValueError: the folder holds something else, a package is not installed, or the build fails.
    """
    if site.is_dir() and any(site.iterdir()) and not (site / MARK).exists():
        raise ValueError(
            f"{site} contains other files than a built site, and building would delete them. Choose a new folder."
        )
    for package in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
        require(package, "docs")
    say("Building the pages (takes about half a minute).")
    unfinished = site.with_name(f"{site.name}.tmp")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(unfinished)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # the theme's warning about another product
    done = subprocess.run(command, cwd=repository, env=quiet, capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise ValueError(f"could not build the pages: {(done.stdout + done.stderr).strip()[-2000:]}")
    shutil.rmtree(site, ignore_errors=True)
    unfinished.replace(site)


def _serve(site: Path, port: int, browser: bool) -> None:
    """Serve the pages to this machine until interrupted."""
    import webbrowser
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Do not log requests."""

    server = ThreadingHTTPServer(("127.0.0.1", free_port(port)), partial(Quiet, directory=site))
    address = f"http://127.0.0.1:{server.server_port}"
    out.print(Text.assemble("Serving them at ", (address, "bold"), " (Ctrl-C stops it)."))
    if browser and sys.stdout.isatty():
        webbrowser.open(address)  # the server answers once it runs
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()
