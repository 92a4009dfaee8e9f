"""retrofit export"""

import importlib
import sys
from dataclasses import MISSING, dataclass
from pathlib import Path

from ..system.extras import require
from ..system.settings import setting
from .application import command
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
    file = asked.out or Path(f"{asked.run.absolute().name}.html")
    if file.is_dir():
        raise ValueError(f"--out {file} is a folder. Name a file, such as {file / 'run.html'}.")
    check_folder(file.absolute().parent, "--out")
    check_replaced("--out", [file], overwrite=asked.overwrite)
    folder = str(app_folder().parent)  # of the workbench's packages, which this one never imports by name
    if folder not in sys.path:
        sys.path.append(folder)
    share = importlib.import_module("retrofit_app.share")
    file.absolute().parent.mkdir(parents=True, exist_ok=True)
    share.save(asked.run, file)
    say(f"The page is {file}.")
