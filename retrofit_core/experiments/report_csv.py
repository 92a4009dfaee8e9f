"""A report as CSV: one line for each cell, each rank correlation and each difference that the paper claims."""

import csv
import io
from collections.abc import Iterator
from typing import Any

from .claims import Claim
from .report import Block, Line, Report, TableReport

FIELDS: tuple[str, ...] = (
    "kind",
    "table",
    "column",
    "row",
    "metric",
    "paper",
    "paper_deviation",
    "paper_seeds",
    "ours",
    "ours_deviation",
    "ours_seeds",
    "difference",
    "within_two_sigma",
    "low",
    "high",
    "paired",
    "state",
    "scale",
    "note",
    "command",
)
#: So many digits are more than any test set has.
DIGITS = 6


def spreadsheet(report: Report) -> str:
    """All tables; what is not known is empty."""
    file = io.StringIO()
    writer: csv.DictWriter[str] = csv.DictWriter(file, FIELDS, lineterminator="\n")
    writer.writeheader()
    for table in report.tables:
        for block in table.blocks:
            same = {"table": table.name, "column": block.column, "metric": block.metric, "scale": block.badge}
            writer.writerows({**same, **_rounded(line)} for line in _lines(table, block))
    return file.getvalue()


def _lines(table: TableReport, block: Block) -> Iterator[dict[str, Any]]:
    for line in block.lines:
        yield _cell(line)
    if block.ranked is not None and block.ranked[1] is not None:
        count, correlation = block.ranked
        yield {"kind": "rank correlation", "ours": correlation, "note": f"{count} methods"}
    for claim in block.claims:
        yield _claim(claim)


def _cell(line: Line) -> dict[str, Any]:
    paper = line.paper
    printed = {"paper": paper.mean, "paper_deviation": paper.deviation, "paper_seeds": paper.seeds} if paper else {}
    return {
        "kind": "cell",
        "row": line.row,
        **printed,
        "ours": line.mean,
        "ours_deviation": line.deviation,
        "ours_seeds": len(line.values),
        "difference": line.difference,
        "within_two_sigma": line.is_within,
        "state": line.state,
        "note": line.note,
        "command": line.command,
    }


def _claim(claim: Claim) -> dict[str, Any]:
    low, high = claim.interval or (None, None)
    rows = " against ".join(claim.rows) if any(claim.rows) else ""
    return {
        "kind": "difference",
        "row": f"{claim.left} against {claim.right}",
        "paper": claim.paper,
        "paper_deviation": claim.deviation,
        "ours": claim.ours,
        "low": low,
        "high": high,
        "paired": claim.paired if claim.interval else None,
        "state": claim.verdict,
        "note": rows,
    }


def _rounded(line: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, DIGITS) if isinstance(value, float) else value for name, value in line.items()}
