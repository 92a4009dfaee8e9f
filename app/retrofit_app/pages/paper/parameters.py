"""The page Paper's parameters in the address: the table, and the cell whose recipe is open."""

from collections.abc import Collection

from retrofit_app.address.readers import one_of
from retrofit_app.address.rule import Parameter, option
from retrofit_app.address.session import Scope

VIEWS = {"all": "All tables", "table": "Table by table"}


PAPER = Scope("paper")


def table(names: Collection[str]) -> str:
    """The table's name, from the address or its control."""
    names = list(names)
    return PAPER.one(option("table", names, names[0], "table of the paper"))


def cell(cells: Collection[str]) -> str:
    """The cell of this table whose recipe is open; "" for none."""
    return PAPER.one(Parameter("cell", "", one_of(["", *cells], "cell of this table")))


def view(names: Collection[str]) -> str:
    """The current view, one of VIEWS, from the address or its control; by default all tables, unless the address names one."""
    usual = "all" if table(names) == next(iter(names)) else "table"
    return PAPER.one(option("view", list(VIEWS), usual, "view of this page"))


def to_table(name: str) -> None:
    """Open another table. For callbacks."""
    first = {"view": "table"} if name == PAPER.parameter("table").default else {}
    PAPER.start_from(table=name, **first)


def to_cell(name: str) -> None:
    """Open a cell's recipe; "" closes it. For callbacks."""
    PAPER.change(cell=name)
