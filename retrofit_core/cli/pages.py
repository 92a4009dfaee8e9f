"""retrofit export | learn"""

import importlib
import sys
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from ..system.extras import require
from ..system.settings import setting
from .application import command, user_cache
from .checks import check_folder, check_replaced
from .commands import app_folder
from .fields import Overwrite, argument
from .terminal import say


@dataclass(frozen=True, kw_only=True)
class ExportRequest(Overwrite):
    """Parameters of `retrofit export`."""

    run: Path = argument(MISSING, "Folder of a finished run, as written by fuse --record.")
    out: Path | None = setting(None, "Write the page to this file. Default: the run's name with .html, here.")


@command("export")
def export_command(asked: ExportRequest) -> None:
    """Write a finished run as one HTML file to send: networks, ingredients, levels, merged neurons, landscape.

    It opens in any browser without server, network or Python, and its figures are interactive (5 MB, most of them Plotly).

    Example: `retrofit export runs/first --out first.html`
    """
    require("plotly", "app")
    if not (asked.run / "config.json").exists():
        raise ValueError(f"{asked.run} is not the record of a run. Name a folder that `retrofit fuse --record` wrote.")
    file = _page(asked, Path(f"{asked.run.absolute().name}.html"))
    _workbench("share").save(asked.run, file)
    say(f"The page is {file}.")


@dataclass(frozen=True, kw_only=True)
class LearnRequest(Overwrite):
    """Parameters of `retrofit learn`."""

    out: Path | None = setting(None, "Write the page to this file. Default: learn.html in your cache folder.")
    browser: bool = setting(True, "Open the default browser.")


@command("learn")
def learn_command(asked: LearnRequest) -> None:
    """Open an interactive explanation of the method in the browser: one file that needs neither a server nor Python.

    You can email the file to students, or publish it on a web page.

    Example: `retrofit learn --out learn.html --no-browser`
    """
    import webbrowser

    file = _page(asked, user_cache() / "learn.html", replaced=asked.out is None).absolute()
    _workbench("learn").save(file)
    say(f"The page is {file}.")
    if asked.browser and sys.stdout.isatty():
        webbrowser.open(file.as_uri())


def _page(asked: Any, usual: Path, replaced: bool = False) -> Path:
    """The file to write, in a folder that exists.

    Args:
        usual: without --out.
        replaced: whether it may always be replaced.
    Raises:
        ValueError: it cannot be written, or exists.
    """
    file = asked.out or usual
    if file.is_dir():
        raise ValueError(f"--out {file} is a folder. Name a file, such as {file / usual.name}.")
    check_folder(file.absolute().parent, "--out")
    check_replaced([file], overwrite=asked.overwrite or replaced)
    file.absolute().parent.mkdir(parents=True, exist_ok=True)
    return file


def _workbench(name: str) -> Any:
    """A package of the workbench, which this one never imports by name."""
    folder = str(app_folder().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(f"retrofit_app.{name}")
