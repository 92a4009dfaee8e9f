"""Results that nobody measured, for tests of what is made of results."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from retrofit_core.experiments.configs import cells_of
from retrofit_core.experiments.results import Result
from retrofit_core.experiments.tables import TABLES
from retrofit_core.training.evaluation import as_bits

IMAGES = 100
TWO_WAY = "2-way"


def made(row: str, known: int | Iterable[bool] = IMAGES // 2, **facts: Any) -> Result:
    """A result of a network that classifies the first of IMAGES rightly, by default of the column "2-way" at `small`."""
    correct = np.array(knowing(known) if isinstance(known, int) else list(known), dtype=bool)
    accuracy = round(100 * float(correct.mean()), 6)
    usual: dict[str, Any] = {
        "column": TWO_WAY,
        "scale": "small",
        "machine": "device an abacus, commit abc",
        "date": "1970-01-01",
    }
    if "refusal" not in facts:
        usual |= {"value": accuracy, "images": len(correct), "bits": as_bits(correct), "seconds": 1.5}
        usual["metrics"] = {"per_class": [accuracy] * 10}
    return Result(row=row, **(usual | facts))


def of_rows(numbers: Mapping[str, int], **facts: Any) -> list[Result]:
    """A result for each row."""
    return [made(row, known, **facts) for row, known in numbers.items()]


def of_table(table: str, known: int, scale: str = "small", badge: str | None = None) -> list[Result]:
    """A result for every cell of a table."""
    return [
        made(cell.row, known, column=cell.column, scale=badge or scale, parents=cell.parents, seed=cell.seed)
        for cell in cells_of(TABLES[table], scale)
    ]


def knowing(share: int) -> list[bool]:
    """The first images of IMAGES."""
    return [image < share for image in range(IMAGES)]
