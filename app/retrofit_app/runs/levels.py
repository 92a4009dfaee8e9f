"""What a run's record says of its levels, read for pages and files."""

from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from retrofit_app import figures
from retrofit_app.figures import Neurons
from retrofit_core.system.files import json_of

from . import methods
from .records import Entry


def record(entry: Entry) -> Any:
    """The whole record (a `runs.Run`), checked.

    Raises:
        ValueError: it is damaged.
    """
    from retrofit_core.runs import read_run

    return read_run(entry.folder)


def analysis(entry: Entry) -> Any:
    """The run's `Analysis`, or None.

    Raises:
        ValueError: it is damaged.
    """
    from retrofit_core.inspection.analysis import Analysis

    return Analysis.load(entry.folder) if "analysis.json" in entry.status.get("checksums", {}) else None


@dataclass(frozen=True)
class Overview:
    """All levels at a glance, read without torch."""

    table: pd.DataFrame
    """From `results.frame`"""
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
    def worst(self) -> int:
        """The level that the headline names and that opens first."""
        return figures.worst_level(self.table, self.course)


def overview(entry: Entry) -> Overview:
    """The record's table of levels and the accuracies.

    Raises:
        ValueError: a file is missing or broken.
    """
    path = entry.folder
    try:
        table = pd.read_parquet(path / "levels.parquet").drop(columns="report", errors="ignore")
        facts = json_of(path / "analysis.json") if "analysis.json" in entry.status.get("checksums", {}) else {}
    except Exception as error:  # pyarrow and json raise several
        raise ValueError(f"the levels of run {path.name} cannot be read ({type(error).__name__}).") from error
    # Methods that only align neurons have no targets.
    errors = ["approximation error", "approximation share"]
    table[errors] = table[errors].astype(float).fillna(0.0)
    accuracy = facts.get("accuracy", [])
    knows = facts.get("knows") or [""] * len(accuracy)
    each = zip(accuracy, knows, strict=True)
    return Overview(table, [{"accuracy": value, "samples": facts["samples"], "knows": bits} for value, bits in each])


def accuracy_words(entry: Entry, overview: Overview) -> str:
    """Which images the accuracy after each level was measured on, compared with the run's; empty if unmeasured."""
    fused = entry.metrics.get("networks", {}).get("fused")
    if not overview.course or not fused:
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


def strip_words(entry: Entry, overview: Overview) -> str:
    """How to read the strip over all levels."""
    kinds = (
        "Approximation error: the new level misses the groups' targets."
        if methods.goes_level_by_level(entry)
        else f"{methods.why_no_analysis(entry)}, so approximation errors and accuracies after each level are not shown."
    )
    line = "A bar is the accuracy if the fusion stopped after that level minus that before it. " * bool(overview.course)
    line += "It begins with the ensemble of centred networks. " * bool(line and methods.fusion(entry).get("centre"))
    before = (
        " Errors are those before the training that follows, accuracies those after it."
        * methods.is_trained_after(entry)
    )
    return (
        f"{line}The row is the error in per cent of the neurons' importance-weighted energy. Grouping error: neurons of a group "
        f"are not alike. {kinds}{before}"
        f" {accuracy_words(entry, overview)}"
    )


def report_of(overview: Overview) -> pd.DataFrame:
    """The table of levels for download, with the accuracy after each if it was measured."""
    return overview.table.assign(**({"accuracy after %": overview.accuracy[1:]} if overview.course else {}))


def grouped(entry: Entry, levels: list[Any], analysed: Any, level: int, score: str | None = None) -> Neurons:
    """A level's neurons as a score groups them; without a score, as the run did.

    Args:
        levels, analysed: the run's reports of levels, and its `Analysis` or None.
    """
    report, classes = levels[level], tuple(entry.metrics.get("classes") or ())
    if level < len(levels) - 1 or {*report.widths, report.width} != {len(classes)}:
        classes = ()
    if score is None or analysed is None:
        return replace(figures.neurons(report), classes=classes)
    of_level = analysed.levels[level]
    return replace(figures.neurons(report, of_level.labels[score], of_level.scores[score]), classes=classes)
