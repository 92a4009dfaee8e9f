"""The comparison of algorithms (the paper's Table 1), of every method that there is, from what each declares that it takes."""

from collections.abc import Callable

import pandas as pd

from ..methods import METHODS
from ..task import Takes

#: A column's title, as in the paper, and the declared fact.
COLUMNS: dict[str, Callable[[Takes], bool]] = {
    "linear layers": lambda takes: takes.linear_layers,
    "transformers": lambda takes: takes.transformers,
    "any modularizable architecture": lambda takes: takes.any_architecture,
    "more than two models": lambda takes: takes.parents[1] is None or takes.parents[1] > 2,
    "different widths": lambda takes: not takes.equal_widths,
    "different depths": lambda takes: takes.other_depths,
    "benefits from importance scores": lambda takes: takes.importance,
}


def capabilities() -> pd.DataFrame:
    """Methods down, capabilities across, True where a method has one.

    "Any modularizable architecture": whatever falls into levels. "Different depths": parents deeper than the fused network.
    "Benefits from importance scores" says that a method takes them; by how much they help is measured, not declared. High
    zero-shot accuracy, the paper's last column, is no capability, but a measurement too.
    """
    rows = {name: {title: has(method.takes) for title, has in COLUMNS.items()} for name, method in METHODS.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(COLUMNS)).rename_axis("method")


def capabilities_markdown() -> str:
    """The same as a Markdown table."""
    table = capabilities()
    lines = [f"| method | {' | '.join(table.columns)} |", "| --- |" + " --- |" * len(table.columns)]
    for name, row in table.iterrows():
        lines.append(f"| {name} | {' | '.join('yes' if value else 'no' for value in row)} |")
    return "\n".join(lines)
