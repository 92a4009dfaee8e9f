"""The page Compare's parameter in the address: the compared runs."""

from collections.abc import Collection

from retrofit_app.address.readers import Series, one_of
from retrofit_app.address.rule import Parameter
from retrofit_app.address.session import Scope

#: Most runs to compare at a time, so that an address has room for them.
MOST_RUNS = 150
COMPARE = Scope("compare")


def compared_runs(names: Collection[str], default: tuple[str, ...]) -> tuple[str, ...]:
    """The compared runs, from the address or their control.

    Args:
        names: all runs that can be compared.
        default: the runs to compare if none were chosen.
    """
    read = Series("|", one_of(names, "finished run"), MOST_RUNS, once=True, otherwise=default)
    return COMPARE.one(Parameter("runs", default, read))
