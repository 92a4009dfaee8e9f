"""What the page Paper shows, as its address says it: the table, its scale, which rows, and the cell whose recipe is open."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from retrofit_app.address.readers import Series, one_of
from retrofit_app.address.rule import Parameter, declared, option, switch
from retrofit_app.address.session import Scope
from retrofit_app.runs.leaderboards import FAMILIES
from retrofit_app.runs.paper import FULLEST, OTHERS, PARENTS

PAPER = Scope("paper")
#: Families by which rows are chosen.
KINDS = (PARENTS, *FAMILIES, OTHERS)

VIEWS = {"table": "Table by table", "all": "All tables"}


@dataclass(frozen=True)
class Rows:
    """Which rows are shown."""

    families: tuple[str, ...] = declared((), Series(",", one_of(KINDS, "family of methods"), once=True))
    """() for all"""
    disagreeing: bool = switch("choice of rows")
    """Only those that contradict the paper"""
    more: bool = switch("choice of rows")
    """Rows that the paper lacks, too"""


@dataclass(frozen=True)
class Place:
    """What is looked at in a table."""

    scale: str
    cell: str
    """Whose recipe is open; "" for none"""


def table(names: Collection[str]) -> str:
    """Which table, from the address or its control."""
    names = list(names)
    return PAPER.one(option("table", names, names[0], "table of the paper"))


def rows() -> Rows:
    """Which rows, from the address or their controls."""
    return PAPER.read(Rows)


def place(scales: Sequence[str], cells: Collection[str]) -> Place:
    """What is looked at in this table.

    Args:
        scales: at which something is measured.
        cells: names of all cells.
    """
    return PAPER.read(
        Place,
        [
            option("scale", [FULLEST, *scales], FULLEST, "scale at which this table is measured"),
            Parameter("cell", "", one_of(["", *cells], "cell of this table")),
        ],
    )


def view() -> str:
    """What is looked at, one of VIEWS, from the address or its control."""
    return PAPER.one(option("view", list(VIEWS), "table", "view of this page"))


def column(names: Sequence[str]) -> str:
    """Of which column a picture is: the first one where the address names none."""
    return PAPER.one(option("column", names, names[0], "column with numbers of ours"))


def picture(names: Sequence[str]) -> str:
    """Which picture of a column."""
    return PAPER.one(option("picture", names, names[0], "picture of this column"))


def to_table(name: str) -> None:
    """Open another table, with the same choice of rows. For callbacks."""
    kept = {each: PAPER.current(each) for each in Rows.__dataclass_fields__ if PAPER.knows(each)}
    PAPER.start_from(table=name, **kept)


def to_cell(name: str) -> None:
    """Open a cell's recipe; "" closes it. For callbacks."""
    PAPER.change(cell=name)
