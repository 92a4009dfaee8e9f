"""The page's three views, and their parameters in the address."""

from dataclasses import dataclass

from retrofit_app.address.readers import Series, path
from retrofit_app.address.rule import declared, option
from retrofit_app.address.session import Scope

VIEWS = {"result": "Result", "new": ":material/add: New fusion", "runs": "Your runs"}
MOST_TICKS = 12


@dataclass(frozen=True)
class Listing:
    """The choices in the list of runs."""

    filter: str = declared("", path)
    """Words that a run's line must have"""
    ticks: tuple[str, ...] = declared((), Series("|", most=MOST_TICKS, once=True))
    """Names of runs to compare"""
    opened: tuple[str, ...] = declared((), Series("|", once=True))
    """Names of leaderboards whose runs are listed"""


VIEW = Scope("fuse-view")


def view() -> str:
    """The current view, one of VIEWS, from the address or its control."""
    return VIEW.one(option("view", list(VIEWS), "result", "view of this page", until_run=True))
