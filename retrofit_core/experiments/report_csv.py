"""A report as CSV: one line for each cell, each rank correlation and each difference that the paper claims."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pandas as pd

from .report import Report
from .report_parts import Block
from .results import rounded

FIELDS: tuple[str, ...] = (
    *("kind", "table", "column", "row", "metric"),
    *("paper", "paper_deviation", "paper_seeds", "ours", "ours_deviation", "ours_parents", "ours_seeds"),
    *("deviation_parents", "deviation_fusion", "deviation_images"),
    *("difference", "within_two_sigma", "low", "high", "paired", "opponent", "within_paper_noise"),
    *("state", "scale", "note", "command"),
)
#: More digits than any test set needs.
DIGITS = 6


def spreadsheet(report: Report) -> str:
    """All tables as CSV; unknown fields are empty."""
    lines = [
        {"table": table.name, "column": block.column, "metric": block.metric, "scale": block.badge, **line}
        for table in report.tables
        for block in table.blocks
        for line in _lines(block)
    ]
    frame = pd.DataFrame(rounded(lines, DIGITS), columns=list(FIELDS), dtype=object)
    return frame.to_csv(index=False, lineterminator="\n")


def _lines(block: Block) -> Iterator[dict[str, Any]]:
    for line in block.lines:
        paper = line.paper
        printed = {"paper": paper.mean, "paper_deviation": paper.deviation, "paper_seeds": paper.seeds} if paper else {}
        yield {
            "kind": "cell",
            "row": line.row,
            **printed,
            "ours": line.mean,
            "ours_deviation": line.deviation,
            "ours_parents": len(line.by_parents),
            "ours_seeds": len(line.values),
            **{f"deviation_{name}": value for name, value in asdict(line.spread).items() if line.images},
            "difference": line.difference,
            "within_two_sigma": line.is_within,
            "state": line.state,
            "note": line.note,
            "command": line.command,
        }
    for order, whose in ((block.ranked, ""), (block.ranked_own, "of the paper's own ")):
        if order is not None:
            low, high = order.interval or (None, None)
            facts = {"ours": order.correlation, "low": low, "high": high, "note": f"{whose}{order.methods} rows"}
            yield {"kind": "rank correlation", **facts}
    for claim in block.claims:
        low, high = claim.interval or (None, None)
        yield {
            "kind": "difference",
            "row": f"{claim.left} against {claim.right}",
            "paper": claim.paper,
            "paper_deviation": claim.deviation,
            "ours": claim.ours,
            "low": low,
            "high": high,
            "paired": claim.paired if claim.interval else None,
            "opponent": claim.group,
            "within_paper_noise": claim.is_noise,
            "ours_seeds": claim.seeds or None,
            "state": claim.verdict,
            "note": " against ".join(claim.rows) if any(claim.rows) else "",
        }
