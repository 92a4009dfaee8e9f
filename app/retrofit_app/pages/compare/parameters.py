"""What the page Compare shows, as its address says it: the compared runs, how they are laid out, and the leaderboard."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from retrofit_app.address.readers import joined, spelled, texts
from retrofit_app.address.rule import Parameter, flag, option
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
class Where:
    """What is looked at."""

    view: str


@dataclass(frozen=True)
class Chosen:
    """The compared runs, and their table."""

    runs: tuple[str, ...]
    order: str
    apart: bool
    """Each seed is a row of its own"""
    every: bool
    """All settings are listed, and not only those that differ"""


@dataclass(frozen=True)
class Pair:
    """Two of several, by name."""

    first: str
    second: str


@dataclass(frozen=True)
class Board:
    """What a leaderboard is made of."""

    of: str
    """The run whose parents and settings it takes"""
    methods: tuple[str, ...]
    scores: tuple[str, ...]


def where() -> Where:
    """The view, from the address or its control."""
    return COMPARE.read(Where, [option("view", list(VIEWS), "runs", "view of this page")])


def chosen(names: Collection[str], default: tuple[str, ...]) -> Chosen:
    """Runs and layout, from the address or their controls.

    Args:
        names: of all runs that can be compared.
        default: those that are compared where nothing was chosen.
    """

    def runs(text: str) -> tuple[str, ...]:
        named = tuple(dict.fromkeys(texts(text)))
        if len(named) > MOST_RUNS:
            raise ValueError(f"it is a list of up to {MOST_RUNS} runs, separated by |")
        if unknown := [name for name in named if name not in names]:
            raise ValueError(f"there is no finished run {unknown[0][:40]}")
        return named or default

    return COMPARE.read(
        Chosen,
        [
            Parameter("runs", default, runs, "|".join),
            option("order", list(ORDERS), "chosen", "order of the table"),
            flag("apart", "layout of the table"),
            flag("every", "layout of the settings"),
        ],
    )


def mistakes(ids: Sequence[str], default: tuple[str, str]) -> Pair:
    """Two networks whose confusions are drawn."""
    return _pair("left", "right", ids, default, "network of this comparison")


def strips(names: Sequence[str], default: tuple[str, str]) -> Pair:
    """Two runs whose levels are drawn."""
    return _pair("upper", "lower", names, default, "run of this comparison")


def board(runs: Sequence[str], methods: Sequence[str], scores: Sequence[str], usual: Board) -> Board:
    """What the leaderboard is made of.

    Args:
        runs: finished ones.
        methods, scores: the library's.
        usual: what is taken where nothing was chosen.
    """

    def some(names: Sequence[str], what: str) -> Callable[[str], tuple[str, ...]]:
        def read(text: str) -> tuple[str, ...]:
            words = [word for word in text.split(",") if word]
            named = [spelled(word, names) for word in words]
            if None in named:
                raise ValueError(f"there is no {what} {words[named.index(None)][:40]}")
            return tuple(dict.fromkeys(name for name in named if name))

        return read

    return COMPARE.read(
        Board,
        [
            option("of", runs, usual.of, "finished run"),
            Parameter("methods", usual.methods, some(methods, "method"), joined(",")),
            Parameter("scores", usual.scores, some(scores, "importance score"), joined(",")),
        ],
    )


def _pair(first: str, second: str, names: Sequence[str], default: tuple[str, str], what: str) -> Pair:
    values = COMPARE.read(dict, [option(first, names, default[0], what), option(second, names, default[1], what)])
    return Pair(values[first], values[second])
