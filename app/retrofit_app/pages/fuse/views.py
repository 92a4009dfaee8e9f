"""The page's three views, and their parameters in the address."""

from retrofit_app.address.readers import Series
from retrofit_app.address.rule import Parameter, option
from retrofit_app.address.session import Scope

VIEWS = {"result": "Result", "new": ":material/add: New fusion", "runs": "Your runs"}
MOST_TICKS = 12


VIEW = Scope("fuse-view")


def view() -> str:
    """The current view, one of VIEWS, from the address or its control."""
    return VIEW.one(option("view", list(VIEWS), "result", "view of this page", until_run=True))


def ticks_in_address() -> tuple[str, ...]:
    """Names of the runs that are ticked in the list."""
    return VIEW.one(Parameter("ticks", (), Series("|", most=MOST_TICKS, once=True)))
