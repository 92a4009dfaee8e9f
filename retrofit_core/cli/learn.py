"""retrofit learn"""

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

from ..system.settings import setting
from .application import command, user_cache
from .checks import check_folder, check_replaced
from .commands import app_folder
from .fields import Overwrite
from .terminal import say


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

    file = (asked.out or user_cache() / "learn.html").absolute()
    if file.is_dir():
        raise ValueError(f"--out {asked.out} is a folder. Name a file, such as {file / 'learn.html'}.")
    check_folder(file.parent, "--out")
    check_replaced("--out", [asked.out], overwrite=asked.overwrite)
    # The workbench's package `learn`, loaded alone from its file.
    spec = importlib.util.spec_from_file_location("retrofit_learn", app_folder() / "learn" / "__init__.py")
    assert spec and spec.loader
    learn = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(learn)
    file.parent.mkdir(parents=True, exist_ok=True)
    learn.save(file)
    say(f"The page is {file}.")
    if asked.browser and sys.stdout.isatty():
        webbrowser.open(file.as_uri())
