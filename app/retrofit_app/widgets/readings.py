"""What pages read from records, cached until they change."""

import numpy as np
import pandas as pd

from retrofit_app import figures, runs
from retrofit_app.figures import Neurons
from retrofit_app.models.keep import keep
from retrofit_app.runs import levels

MEMBERS = 30  # most members of a cluster to name one by one


record = keep(2, "Reading the run's levels…")(levels.record)  # one of large networks has hundreds of megabytes
analysis = keep(2, "Reading the analysis…")(levels.analysis)
overview = keep(200)(levels.overview)


@keep(1000)
def grouping(entry: runs.Entry, level: int, score: str | None = None, seed: int = 0) -> Neurons:
    """See `levels.grouped`."""
    return levels.grouped(entry, record(entry).levels, analysis(entry), level, score, seed)


def neuron_table(entry: runs.Entry, level: int, score: str | None = None, seed: int = 0) -> pd.DataFrame:
    """One row per neuron of the parents; the index is its number among all."""
    grouped, analysed = grouping(entry, level, score, seed), analysis(entry)
    table = {
        "neuron": grouped.names,
        "network": [figures.letter(parent) for parent in grouped.parents],
        "group": grouped.labels,
        "members": grouped.counts[grouped.labels],
        "importance × mean": grouped.weights,
        "distance": grouped.distances,
    }
    if analysed is not None:
        table["kept R²"] = analysed.levels[level].kept.double().numpy()
    return pd.DataFrame(table)


def rows_of(grouped: Neurons, picked: list[tuple[int, int]]) -> list[int]:
    """Picked neurons' numbers among all neurons of a level; leaves out those that a narrower level lacks."""
    first = np.cumsum([0, *grouped.widths])
    return [
        int(first[parent]) + neuron
        for parent, neuron in picked
        if parent < len(grouped.widths) and neuron < grouped.widths[parent]
    ]
