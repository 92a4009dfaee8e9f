"""The page Paper's parameters in the address: the table, its scale, its rows, and the cell whose recipe is open."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from retrofit_app.address.readers import Switch, one_of
from retrofit_app.address.rule import Parameter, option
from retrofit_app.address.session import Scope
from retrofit_app.runs.paper import FULLEST

VIEWS = {"all": "All tables", "table": "Table by table"}


@dataclass(frozen=True)
class Place:
    """The place in a table."""

    scale: str
    cell: str
    """The cell whose recipe is open; "" for none"""


PAPER = Scope("paper")


def table(names: Collection[str]) -> str:
    """The table's name, from the address or its control."""
    names = list(names)
    return PAPER.one(option("table", names, names[0], "table of the paper"))


def more() -> bool:
    """Whether rows that the paper lacks are shown, from the address or its control."""
    return PAPER.one(Parameter("more", False, Switch("choice of rows")))


def place(scales: Sequence[str], cells: Collection[str]) -> Place:
    """The place in this table.

    Args:
        scales: those with measurements.
        cells: names of all cells.
    """
    return PAPER.read(
        Place,
        [
            option("scale", [FULLEST, *scales], FULLEST, "scale at which this table is measured"),
            Parameter("cell", "", one_of(["", *cells], "cell of this table")),
        ],
    )


def view(names: Collection[str]) -> str:
    """The current view, one of VIEWS, from the address or its control; by default all tables, unless the address names one."""
    usual = "all" if table(names) == next(iter(names)) else "table"
    return PAPER.one(option("view", list(VIEWS), usual, "view of this page"))


def to_table(name: str) -> None:
    """Open another table, with the same choice of rows. For callbacks."""
    kept = {"more": PAPER.current("more")} if PAPER.knows("more") else {}
    first = {"view": "table"} if name == PAPER.parameter("table").default else {}
    PAPER.start_from(table=name, **first, **kept)


def to_cell(name: str) -> None:
    """Open a cell's recipe; "" closes it. For callbacks."""
    PAPER.change(cell=name)
