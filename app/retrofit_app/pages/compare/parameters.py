"""The page Compare's parameters in the address: the compared runs and their layout."""

from collections.abc import Collection
from dataclasses import dataclass

from retrofit_app.address.readers import Series, one_of
from retrofit_app.address.rule import Parameter, declared, switch
from retrofit_app.address.session import Scope

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


COMPARE = Scope("compare")


def run_table(names: Collection[str], default: tuple[str, ...]) -> RunTable:
    """Runs and layout, from the address or their controls.

    Args:
        names: all runs that can be compared.
        default: the runs to compare if none were chosen.
    """
    runs = Series("|", one_of(names, "finished run"), MOST_RUNS, once=True, otherwise=default)
    return COMPARE.read(RunTable, [Parameter("runs", default, runs)])
