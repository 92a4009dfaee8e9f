"""A report as Markdown (with aligned columns, readable as text; in notebooks with collapsed parts) and CSV."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from ..system.tables import markdown_table
from .report import Count, Report
from .report_words import (
    APART,
    CLAIM_HEADER,
    HEADER,
    READING,
    SUMMARY_HEADER,
    TITLE,
    claim_words,
    column_sentences,
    column_title,
    departures,
    details,
    findings,
    footnotes,
    line_words,
    many,
    summary_rows,
    table_title,
)
from .reproduction import Display, ReproducedColumn, ReproducedTable
from .results import rounded


def markdown(report: Report) -> str:
    """All tables, between a summary (claims agreed / undecided / contradicted) and the differences from the paper."""
    apart = report.summary.substituted
    parts = [
        f"# {TITLE}",
        _sentences(findings(report.summary)),
        _summary(report.summary.counts),
        _sentences(details(report)),
        _sentences(READING),
        *map(_part, report.tables),
        *([f"## {APART}", _summary(apart)] if apart else []),
        "## What differs from the paper",
        _sentences(departures(report)),
    ]
    return _joined(parts) + "\n"


def _summary(counts: Sequence[Count]) -> str:
    """Measured numbers and claims of each table; empty if there are none."""
    return _grid(SUMMARY_HEADER, summary_rows(counts)) if counts else ""


def _part(shown: ReproducedTable | ReproducedColumn, notebook: bool = False) -> str:
    """A table with its columns and the commands that measure what is missing; or a column.

    Args:
        notebook: whether to collapse claims and commands, and to write no headings, which would be the notebook's.
    """
    if isinstance(shown, ReproducedColumn):
        return _column(shown, notebook)
    commands = "\n".join(["```sh", *shown.commands, "```"])
    missing = _under("What is missing is measured by:", commands, notebook) if shown.commands else ""
    columns = (_column(column, notebook) for column in shown.columns)
    return _joined([_heading(table_title(shown), 2, notebook), *columns, missing])


def _column(column: ReproducedColumn, notebook: bool) -> str:
    """A column: its scale, lines, and the differences that the paper claims."""
    notes, rows = footnotes(column.all_lines), []
    for line in column.all_lines:
        words = [*line_words(line, column)]
        words[2] += f" [{notes[line.note]}]" if line.note else ""
        rows.append(words)
    claims = [claim_words(claim) for claim in column.claims if claim.ours is not None]
    title = f"{many(len(claims), 'difference')} that the paper's numbers claim, and ours"
    title += f" ({column.setting.substitute})" if column.setting.substitute else ""
    claimed = _grid(CLAIM_HEADER, claims) if claims else ""
    return _joined(
        [
            _heading(column_title(column), 3, notebook),
            _grid(HEADER, rows),
            "\n".join(f"[{number}] {note}  " for note, number in notes.items()),
            _sentences(column_sentences(column)),
            _under(title, claimed, notebook) if notebook and claims else claimed,
        ]
    )


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _heading(text: str, level: int, notebook: bool) -> str:
    return f"**{text}**" if notebook else f"{'#' * level} {text}"


def _sentences(texts: Sequence[str]) -> str:
    return "\n".join(f"- {text}" for text in texts)


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return markdown_table(header, rows, right=range(1, len(header) - 1))


def _under(title: str, text: str, notebook: bool) -> str:
    """A text below its title, which opens it in a notebook."""
    if notebook:
        return f"<details markdown='1'><summary>{title}</summary>\n\n{text}\n\n</details>"
    return f"{title}\n\n{text}"


FIELDS: tuple[str, ...] = (
    *("kind", "table", "column", "row", "metric"),
    *("paper", "paper_deviation", "paper_seeds", "ours", "ours_deviation", "ours_parents", "ours_seeds"),
    *("deviation_parents", "deviation_fusion", "deviation_images"),
    *("difference", "within_two_sigma", "low", "high", "opponent", "within_paper_noise"),
    *("state", "scale", "note", "command"),
)
#: More digits than any test set needs.
DIGITS = 6


def spreadsheet(report: Report) -> str:
    """All tables as CSV, with a line for each cell and claimed difference; unknown fields are empty."""
    lines = [
        {"table": column.table, "column": column.name, "metric": column.metric, "scale": column.badge, **line}
        for column in report.columns
        for line in _lines(column)
    ]
    frame = pd.DataFrame(rounded(lines, DIGITS), columns=list(FIELDS), dtype=object)
    return frame.to_csv(index=False, lineterminator="\n")


def _lines(column: ReproducedColumn) -> Iterator[dict[str, Any]]:
    for line in column.all_lines:
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
            **{f"deviation_{name}": value for name, value in line.spread.items() if line.images},
            "difference": line.difference,
            "within_two_sigma": line.is_within,
            "state": line.state,
            "note": line.note,
            "command": column.command(line.row) if line.units else "",
        }
    for claim in column.claims:
        low, high = claim.interval or (None, None)
        yield {
            "kind": "difference",
            "row": f"{claim.left} against {claim.right}",
            "paper": claim.paper,
            "paper_deviation": claim.deviation,
            "ours": claim.ours,
            "low": low,
            "high": high,
            "opponent": claim.group,
            "within_paper_noise": claim.is_noise,
            "ours_seeds": claim.seeds or None,
            "state": claim.verdict,
            "note": " against ".join(claim.rows) if any(claim.rows) else "",
        }


Display.write = staticmethod(_part)
