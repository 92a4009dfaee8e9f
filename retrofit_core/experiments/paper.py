"""The numbers printed in the paper (Luenam et al. 2026), as typed into paper.csv.

A cell of paper.csv has the table's name, its label in the paper's source, a column, a row, the mean, and the deviation if
printed. Rows are names of METHODS with ", uniform", ", conductance" or ", deeplift" if the paper names the scores, and
", best" if it shows the best of them without naming it. "Parent 0", "Parent 1", ... are the base models in the printed order.
A short table of the main text has the name of the full one and its own label.

FIGURES have no printed numbers to compare with ours.

Not typed in: the gains next to accuracies in the short tables, which are differences to the best base model. Two parent
accuracies of `fusion-set-size` and all of `neuron-importance` are from captions.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..system.registry import known_name

#: Name of our table -> label of the paper's figure, which prints no numbers.
FIGURES = {"landscape": "fig:vgg-landscapes", "importance-histogram": "fig:importancehistogram"}
#: Our tables that the paper does not have.
OURS = ("ablation", "beyond")


@dataclass(frozen=True)
class Value:
    """One number of the paper: percent of test images, except for seconds in the runtime tables, a multiple of one network in
    `inference-cost`, and an index up to 1 in `neuron-importance`.

    Args:
        deviation: over seeds; None if the paper prints none.
        seeds: number of averaged seeds (in the runtime tables, runs) in the caption; None if it does not say.
    """

    table: str
    label: str
    column: str
    row: str
    mean: float
    deviation: float | None
    seeds: int | None


@cache
def paper_values(table: str | None = None) -> tuple[Value, ...]:
    """The cells of one table, including its short form, or of all tables, in the order of the file, which is the paper's
    within a label.

    Figures without printed numbers and our own tables have none.

    Raises:
        ValueError: no table or figure has this name.
    """
    if table is None:
        kinds = {"mean": float, "deviation": float, "seeds": int}  # of columns other than words
        with Path(__file__).with_name("paper.csv").open(encoding="utf-8", newline="") as file:
            cells: list[dict[str, Any]] = [
                {name: kinds.get(name, str)(text) if text else None for name, text in line.items()}
                for line in csv.DictReader(file)
            ]
        return tuple(Value(**cell) for cell in cells)
    values = paper_values()
    name = known_name(dict.fromkeys([*(value.table for value in values), *FIGURES, *OURS]), table, "table of the paper")
    return tuple(value for value in values if value.table == name)
