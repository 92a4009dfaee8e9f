"""The numbers that the paper prints (Luenam et al. 2026), as typed into paper.csv and comparison.csv.

A cell of paper.csv has the table's name, its label in the paper's source, a column, a row, the mean, and its deviation where one
is printed. Rows are names of METHODS with ", uniform", ", conductance" or ", deeplift" where the paper names the scores;
", best" where it shows the best of them without saying which. "Parent 0" and on are the base models as they are printed.
A short table of the main text has the name of the full one and its own label.

Figures without printed numbers are FIGURES: what we measure of them stands beside nothing.

Not typed in: the gains beside accuracies in the short tables, which are differences to the best base model. Two parent accuracies
of `fusion-set-size` and all of `neuron-importance` stand in captions.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..system.registry import known_name

#: Name of a table of ours -> label of the paper's figure, which prints no numbers.
FIGURES = {"landscape": "fig:vgg-landscapes", "importance-histogram": "fig:importancehistogram"}
#: Tables of ours that the paper does not have.
OURS = ("ablation", "beyond")


@dataclass(frozen=True)
class Value:
    """One number of the paper: percent of test images, but seconds in the runtime tables, a multiple of one network in
    `inference-cost`, and an index up to 1 in `neuron-importance`.

    Args:
        deviation: over seeds; None where the paper prints none.
        seeds: how many seeds (in the runtime tables, runs) the caption says were averaged; None where it does not say.
    """

    table: str
    label: str
    column: str
    row: str
    mean: float
    deviation: float | None
    seeds: int | None


@cache
def _all_values() -> tuple[Value, ...]:
    return tuple(
        Value(
            line["table"],
            line["label"],
            line["column"],
            line["row"],
            float(line["mean"]),
            float(line["deviation"]) if line["deviation"] else None,
            int(line["seeds"]) if line["seeds"] else None,
        )
        for line in _lines("paper.csv")
    )


def paper_values(table: str | None = None) -> list[Value]:
    """The cells of one table, short form included, or of all, in the order of the file, which is the paper's within a label.

    A figure without printed numbers has none, nor has a table of ours.

    Raises:
        ValueError: no table or figure of that name.
    """
    values = _all_values()
    if table is None:
        return list(values)
    name = known_name(dict.fromkeys([*(value.table for value in values), *FIGURES, *OURS]), table, "table of the paper")
    return [value for value in values if value.table == name]


def claimed_capabilities() -> dict[str, dict[str, bool]]:
    """What the paper's comparison of algorithms (Table 1) says each can do: algorithm, capability, ticked or not.

    Algorithms are families: "HF" and "KF" stand for both fits. Git-Re-Basin is the one by activations, ZipIt merges all layers.
    """
    claims: dict[str, dict[str, bool]] = {}
    for line in _lines("comparison.csv"):
        claims.setdefault(line["algorithm"], {})[line["capability"]] = line["claimed"] == "true"
    return claims


def _lines(name: str) -> Iterator[dict[str, str]]:
    with (Path(__file__).parent / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
