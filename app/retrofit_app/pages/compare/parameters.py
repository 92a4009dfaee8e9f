"""The page Compare's parameters in the address: the compared runs, their layout, and the leaderboard."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from retrofit_app.address.readers import Series, matching, number, one_of
from retrofit_app.address.rule import Parameter, declared, option, switch
from retrofit_app.address.session import Scope
from retrofit_app.runs.sweeps import USUAL

VIEWS = {"runs": "Runs side by side", "board": "Leaderboard of methods", "sweep": "Sweep of one setting"}
MOST_SEEDS = 10  # of a sweep
ORDERS = {
    "chosen": "as chosen",
    "accuracy": "accuracy",
    "loss": "loss",
    "calibration": "calibration error",
    "seconds": "seconds",
}
#: Most runs to compare at a time, so that an address has room for them.
MOST_RUNS = 150


@dataclass(frozen=True)
class RunTable:
    """The compared runs, and their table."""

    runs: tuple[str, ...]
    order: str = declared("chosen", one_of(ORDERS, "order of the table"))
    apart: bool = switch("layout of the table")
    """Give each seed its own row"""
    every: bool = switch("layout of the settings")
    """List all settings, not only those that differ"""


@dataclass(frozen=True)
class Board:
    """A leaderboard's settings."""

    of: str
    """The run whose parents and settings it takes"""
    methods: tuple[str, ...]
    scores: tuple[str, ...]


@dataclass(frozen=True)
class Swept:
    """A sweep's settings."""

    over: str
    """The setting"""
    values: str
    """Separated by commas"""
    seeds: int = declared(1, number(1, MOST_SEEDS, 0))


COMPARE = Scope("compare")


def swept_run(runs: Sequence[str], usual: str) -> str:
    """The run of which one setting is swept."""
    return COMPARE.one(option("of", runs, usual, "finished run"))


def swept(settings: Sequence[str]) -> Swept:
    """A sweep's settings, one of these at several values."""
    over = option("over", settings, settings[0], "numeric setting of this run")
    usual = USUAL.get(COMPARE.one(over), "")
    values = Parameter("values", usual, matching(r"[\w.,+\- ]*", "they are numbers, separated by commas"))
    return COMPARE.read(Swept, [over, values])


def view() -> str:
    """The current view, one of VIEWS, from the address or its control."""
    return COMPARE.one(option("view", list(VIEWS), "runs", "view of this page"))


def run_table(names: Collection[str], default: tuple[str, ...]) -> RunTable:
    """Runs and layout, from the address or their controls.

    Args:
        names: all runs that can be compared.
        default: the runs to compare if none were chosen.
    """
    runs = Series("|", one_of(names, "finished run"), MOST_RUNS, once=True, otherwise=default)
    return COMPARE.read(RunTable, [Parameter("runs", default, runs)])


def pair(first: str, second: str, names: Sequence[str], default: tuple[str, str], what: str) -> tuple[str, str]:
    """Two of several names, from these two parameters.

    Args:
        what: what the names are, for the message about an unknown one.
    """
    values = COMPARE.read(dict, [option(first, names, default[0], what), option(second, names, default[1], what)])
    return values[first], values[second]


def board(runs: Sequence[str], methods: Sequence[str], scores: Sequence[str], usual: Board) -> Board:
    """The leaderboard's settings.

    Args:
        runs: finished ones.
        methods, scores: the library's.
        usual: the defaults.
    """
    return COMPARE.read(
        Board,
        [
            option("of", runs, usual.of, "finished run"),
            Parameter("methods", usual.methods, Series(",", one_of(methods, "method"), once=True)),
            Parameter("scores", usual.scores, Series(",", one_of(scores, "importance score"), once=True)),
        ],
    )
