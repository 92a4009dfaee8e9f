"""Which of the parents' levels would become which fused level, as a table."""

from collections.abc import Sequence
from typing import Any

from .booktable import Column, Line, Table
from .words import first_up, letter

KINDS = {"Conv2d": "convolution", "Linear": "linear", "not affine": "block"}


def planned_table(levels: Sequence[Any]) -> Table:
    """A row for each level, a column for each network.

    Args:
        levels: `PlannedLevel`s, at least one.
    """
    networks = [f"network {letter(index)}" for index in range(len(levels[0].parents))]
    columns = (
        Column("level", "Its name in the fused network", is_number=False),
        Column("layer", "What is fitted there; places are the pixels or tokens where its neurons respond", False),
        *(Column(name.removeprefix("network "), f"Neurons (or channels) of {name}") for name in networks),
        Column("fused", "Neurons of the fused network"),
        Column("what becomes of them", "How the parents' neurons are combined", False),
    )
    return Table("Which level becomes which", columns, tuple(map(_line, levels)))


def planned_words(levels: Sequence[Any]) -> str:
    """One or two sentences on how the levels fit together."""
    count = len(levels)
    uneven = sum(len({part.width for part in level.parents}) > 1 for level in levels)
    every = {1: "The only level fits", 2: "Both levels fit"}.get(count, f"All {count} levels fit")
    return f"{every} together." + (f" At {uneven} of {count} the networks differ in width." if uneven else "")


def _line(level: Any) -> Line:
    fused = level.fused
    kinds: list[str] = fused.kind.split(" + ")
    layer = " + ".join(KINDS.get(kind, kind) for kind in kinds)
    places = f", {fused.positions} places" if fused.positions > 1 else ""
    widths = [_width(part, fused.name) for part in (*level.parents, fused)]
    return Line((fused.name, first_up(layer + places), *widths, level.becomes))


def _width(part: Any, name: str) -> str:
    """Neurons of a network's level, with its name if that differs."""
    return str(part.width) if part.name == name else f"{part.name}: {part.width}"
