"""Results that nobody measured, for tests of what is made of results."""

import dataclasses
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from retrofit_core.experiments.cells import Cell
from retrofit_core.experiments.results import Records, Result, packed_bits
from retrofit_core.experiments.scales import scale_of
from retrofit_core.experiments.tables import TABLES
from retrofit_core.experiments.units import ParentSource, Unit

MACHINE = {
    "device": "an abacus",
    "cores": 1,
    "threads": 1,
    "python": "3",
    "torch": "2",
    "retrofit": "0",
    "commit": "abc",
}
IMAGES = 100


def made(unit: Unit, known: Iterable[bool] | None = None, **facts: Any) -> Result:
    """A result of a unit.

    Args:
        known: which images are classified rightly; the first half by default.
        facts: further metrics; `refusal` is a field.
    """
    correct = np.array(knowing(IMAGES // 2) if known is None else list(known), dtype=bool)
    accuracy = round(100 * float(correct.mean()), 6)
    refusal = facts.pop("refusal", None)
    metrics = {"accuracy": accuracy, "samples": len(correct), "per_class": [accuracy] * 10}
    metrics |= {"seconds": 1.5, "all_seconds": 2.0}
    return Result(
        unit.key(),
        unit.to_json(),
        "made up",
        unit.command("runs") if unit.source.training else "",
        refusal,
        {} if refusal else {**metrics, **facts},
        packed_bits(correct),
        MACHINE,
        1.0,
    )


def cells_of(
    table: str, scale: str = "smoke", seeds: int | None = None, given: ParentSource | None = None
) -> list[Cell]:
    """The cells of a table."""
    return TABLES[table].cells(scale_of(scale), seeds, given)


def records_of(cells: Iterable[Cell], make: Callable[[Cell], dict[str, Any] | None]) -> Records:
    """Results for cells, with what `make` says of each; None leaves its cell out."""
    chosen = [(cell, facts) for cell in cells if (facts := make(cell)) is not None]
    results = [made(unit, **facts) for cell, facts in chosen for unit in cell.units]
    return Records({result.key: result for result in results})


def knowing(share: int) -> list[bool]:
    """The first images of IMAGES."""
    return [image < share for image in range(IMAGES)]


def write_records(path: Path, records: Records) -> None:
    """One file, as they come with the project."""
    given = [{"columns": each.columns, "facts": each.source.digests, "about": each.about} for each in records.given]
    results = [dataclasses.asdict(result) for result in records.results.values()]
    path.write_text(json.dumps({"results": results, "given": given}))
