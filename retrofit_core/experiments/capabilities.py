"""The comparison of algorithms (the paper's Table 1), of every method that there is, from what each declares that it takes."""

from collections.abc import Callable

import pandas as pd

from ..fusion.task import Takes
from ..methods import METHODS
from .paper import claimed_capabilities

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


#: The algorithms of the paper's table that are several methods here; one of them suffices for a tick.
FAMILIES = {
    "OTFusion": ("OTFusion", "Transformer-OTFusion"),
    "HF": ("HF-Linear", "HF-Gradient"),
    "KF": ("KF-Linear", "KF-Gradient"),
}
#: (ticked by the paper, ticked here) -> word.
COMPARED = {
    (True, True): "both",
    (False, False): "neither",
    (True, False): "only in the paper",
    (False, True): "only here",
}


def compared_capabilities() -> pd.DataFrame:
    """The paper's algorithms down, capabilities across: whether the paper ticks it, we do, both, or neither (COMPARED)."""
    ours = capabilities()
    rows = {
        algorithm: {
            title: COMPARED[claimed[title], bool(ours.loc[list(FAMILIES.get(algorithm, (algorithm,))), title].any())]
            for title in COLUMNS
        }
        for algorithm, claimed in claimed_capabilities().items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(COLUMNS)).rename_axis("algorithm")


def capabilities_markdown() -> str:
    """The same as a Markdown table."""
    table = capabilities()
    lines = [f"| method | {' | '.join(table.columns)} |", "| --- |" + " --- |" * len(table.columns)]
    for name, row in table.iterrows():
        lines.append(f"| {name} | {' | '.join('yes' if value else 'no' for value in row)} |")
    return "\n".join(lines)
