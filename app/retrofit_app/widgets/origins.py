"""Where a picture or table comes from: a run, or several of them side by side."""

from collections.abc import Callable
from dataclasses import dataclass

from retrofit_app import runs


@dataclass(frozen=True)
class Several:
    """Runs side by side, in place of one."""

    name: str
    """For files"""
    source: str
    """A sentence without its stop: which runs, and the library's version"""
    texts: Callable[[], tuple[str, str, str]]
    """The comparison as a command, as Python and as a notebook cell"""
    what: str = "Makes these runs again and ranks them, in the runs folder."


Origin = runs.Entry | Several
