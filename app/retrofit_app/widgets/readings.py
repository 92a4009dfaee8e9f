"""What pages read from records, cached until they change."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from retrofit_app import figures, runs
from retrofit_app.figures import Neurons
from retrofit_app.models.kept import kept
from retrofit_app.runs import methods

MEMBERS = 30  # most members of a cluster to name one by one


@kept(2, "Reading the run's levels…")  # one of large networks has hundreds of megabytes
def record(entry: runs.Entry) -> Any:
    """The whole record (a `runs.Run`), checked.

    Raises:
        ValueError: it is damaged.
    """
    from retrofit_core.runs import read_run

    return read_run(entry.folder)


@dataclass(frozen=True)
class Overview:
    """All levels at a glance, read without torch."""

    table: pd.DataFrame
    """From `results.frame`; `form` is AVERAGED if the fit was switched off"""
    course: list[dict[str, Any]]
    """Results of the ensemble, then after each level; empty if unmeasured"""

    @property
    def accuracy(self) -> list[float]:
        """In per cent, as `course`."""
        return [each["accuracy"] for each in self.course]

    @property
    def samples(self) -> int:
        """The number of test images behind them."""
        return self.course[0]["samples"] if self.course else 0

    @property
    def measured(self) -> bool:
        """Whether the accuracy after each level is known."""
        return len(self.course) == len(self.table) + 1

    @property
    def worst(self) -> int:
        """The level that the headline names and that opens first."""
        return figures.worst_level(self.table, self.course)


@kept(200)
def overview(entry: runs.Entry) -> Overview:
    """The record's table of levels and the accuracies.

    Raises:
        ValueError: a file is missing or broken.
    """
    path = entry.folder
    try:
        table = pd.read_parquet(path / "levels.parquet").drop(columns="report", errors="ignore")
        facts = (
            json.loads((path / "analysis.json").read_text())
            if "analysis.json" in entry.status.get("checksums", {})
            else {}
        )
    except Exception as error:  # pyarrow and json raise several
        raise ValueError(f"the levels of run {path.name} cannot be read ({type(error).__name__}).") from error
    # Methods that only align neurons have no targets.
    errors = ["approximation error", "approximation share"]
    table[errors] = table[errors].astype(float).fillna(0.0)
    if not methods.is_fitted(entry):
        table["form"] = figures.AVERAGED
    accuracy = facts.get("accuracy", [])
    knows = facts.get("knows") or [""] * len(accuracy)
    each = zip(accuracy, knows, strict=True)
    return Overview(table, [{"accuracy": value, "samples": facts["samples"], "knows": bits} for value, bits in each])


def accuracy_words(entry: runs.Entry, overview: Overview) -> str:
    """Which images the accuracy after each level was measured on, compared with the run's; empty if unmeasured."""
    fused = entry.metrics.get("networks", {}).get("fused")
    if not overview.measured or not fused:
        return ""
    if overview.samples >= fused["samples"]:
        return f"Accuracy after each level: on all {fused['samples']:,} test images."
    return (
        f"Accuracy after each level: on {overview.samples:,} of the {fused['samples']:,} test images, as many of each class. "
        f"There the fused network gets {_with_interval(overview.accuracy[-1], overview.samples)}; on all of them, as on Fuse, "
        f"{_with_interval(fused['accuracy'], fused['samples'])}."
    )


def _with_interval(accuracy: float, images: int) -> str:
    return f"{figures.percent(accuracy)}\N{NO-BREAK SPACE}{figures.interval(accuracy, images)}"


def report(overview: Overview) -> pd.DataFrame:
    """The table of levels for download, with the accuracy after each if it was measured."""
    return overview.table.assign(**({"accuracy after %": overview.accuracy[1:]} if overview.measured else {}))


@kept(2, "Reading the analysis…")
def analysis(entry: runs.Entry) -> Any:
    """The run's `Analysis`, or None.

    Raises:
        ValueError: it is damaged.
    """
    from retrofit_core.inspection.analysis import Analysis

    return Analysis.load(entry.folder) if "analysis.json" in entry.status.get("checksums", {}) else None


@kept(1000)
def grouping(entry: runs.Entry, level: int, score: str | None = None, seed: int = 0) -> Neurons:
    """A level's neurons as a score groups them; without a score, as the run did."""
    levels, analysed = record(entry).levels, analysis(entry)
    report, classes = levels[level], tuple(entry.metrics.get("classes") or ())
    if level < len(levels) - 1 or {*report.widths, report.width} != {len(classes)}:
        classes = ()
    if score is None or analysed is None:
        return replace(figures.neurons(report), classes=classes)
    level_analysis = analysed.levels[level]
    labels = level_analysis.labels[score]
    grouped = figures.neurons(report, labels[min(seed, len(labels) - 1)], level_analysis.scores[score])
    return replace(grouped, classes=classes)


def neuron_table(entry: runs.Entry, level: int, score: str | None = None, seed: int = 0) -> pd.DataFrame:
    """One row per neuron of the parents; the index is its number among all."""
    grouped, analysed = grouping(entry, level, score, seed), analysis(entry)
    table = {
        "neuron": grouped.names,
        "network": [figures.letter(parent) for parent in grouped.parents],
        "cluster": grouped.labels,
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


@kept(16)
def prepare(entry: runs.Entry, _draw: Callable[[runs.Entry, int], None]) -> None:
    """Prepare all levels' pictures in the background, so that the first visit to each is fast.

    Args:
        _draw: prepares one level of the run.
    """
    levels = range(len(record(entry).levels))
    threading.Thread(target=lambda: [_draw(entry, level) for level in levels], daemon=True).start()
