"""What the page Compare shows, as its address says it: the compared runs, how they are laid out, and the leaderboard."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from retrofit_app.address.readers import Series, one_of
from retrofit_app.address.rule import Parameter, declared, option, switch
from retrofit_app.address.session import Scope

COMPARE = Scope("compare")
VIEWS = {"runs": "Runs side by side", "board": "Leaderboard of methods"}
ORDERS = {
    "chosen": "as chosen",
    "accuracy": "accuracy",
    "loss": "loss",
    "calibration": "calibration error",
    "seconds": "seconds",
}
#: Runs that are compared at a time, at most: an address has room for them.
MOST_RUNS = 150


@dataclass(frozen=True)
class RunTable:
    """The compared runs, and their table."""

    runs: tuple[str, ...]
    order: str = declared("chosen", one_of(ORDERS, "order of the table"))
    apart: bool = switch("layout of the table")
    """Each seed is a row of its own"""
    every: bool = switch("layout of the settings")
    """All settings are listed, and not only those that differ"""


@dataclass(frozen=True)
class Board:
    """What a leaderboard is made of."""

    of: str
    """The run whose parents and settings it takes"""
    methods: tuple[str, ...]
    scores: tuple[str, ...]


def view() -> str:
    """What is looked at, one of VIEWS, from the address or its control."""
    return COMPARE.one(option("view", list(VIEWS), "runs", "view of this page"))


def run_table(names: Collection[str], default: tuple[str, ...]) -> RunTable:
    """Runs and layout, from the address or their controls.

    Args:
        names: of all runs that can be compared.
        default: those that are compared where nothing was chosen.
    """
    runs = Series("|", one_of(names, "finished run"), MOST_RUNS, once=True, otherwise=default)
    return COMPARE.read(RunTable, [Parameter("runs", default, runs)])


def pair(first: str, second: str, names: Sequence[str], default: tuple[str, str], what: str) -> tuple[str, str]:
    """Two of several, by name: what these two parameters hold.

    Args:
        what: they are, for the line that says why another one was ignored.
    """
    values = COMPARE.read(dict, [option(first, names, default[0], what), option(second, names, default[1], what)])
    return values[first], values[second]


def board(runs: Sequence[str], methods: Sequence[str], scores: Sequence[str], usual: Board) -> Board:
    """What the leaderboard is made of.

    Args:
        runs: finished ones.
        methods, scores: the library's.
        usual: what is taken where nothing was chosen.
    """
    return COMPARE.read(
        Board,
        [
            option("of", runs, usual.of, "finished run"),
            Parameter("methods", usual.methods, Series(",", one_of(methods, "method"), once=True)),
            Parameter("scores", usual.scores, Series(",", one_of(scores, "importance score"), once=True)),
        ],
    )
