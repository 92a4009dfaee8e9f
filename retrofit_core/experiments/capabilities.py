"""The comparison of algorithms (the paper's Table 1) for all methods, from their declared capabilities."""

from collections.abc import Callable

import pandas as pd

from ..fusion.task import Takes
from ..methods import METHODS
from .paper import claimed_capabilities

#: The paper's column titles, and the declared facts.
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
    """Whether each method (row) has each capability (column).

    "Any modularizable architecture": any that can be cut into levels. "Different depths": parents deeper than the fused network.
    "Benefits from importance scores": the method accepts them; their benefit is measured, not declared. The paper's last
    column, high zero-shot accuracy, is missing because it is a measurement.
    """
    rows = {name: {title: has(method.takes) for title, has in COLUMNS.items()} for name, method in METHODS.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(COLUMNS)).rename_axis("method")


#: Algorithms of the paper's table that are several methods here; one suffices for a tick.
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
    """Whether the paper, we, both or neither tick each capability (column) of the paper's algorithms (rows), see COMPARED."""
    ours = capabilities()
    rows = {
        algorithm: {
            title: COMPARED[claimed[title], bool(ours.loc[list(FAMILIES.get(algorithm, (algorithm,))), title].any())]
            for title in COLUMNS
        }
        for algorithm, claimed in claimed_capabilities().items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(COLUMNS)).rename_axis("algorithm")
