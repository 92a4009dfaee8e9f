"""A report as Markdown (with aligned columns; in notebooks with collapsed parts), LaTeX (booktabs and longtable) and CSV."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from ..system.tables import latex_escaped, markdown_table
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
from .reproduction import Display, ReproducedColumn, ReproducedTable, display
from .results import rounded


class Markdown:
    """Markdown with aligned columns, readable as text. Parts without content are empty strings, which are left out."""

    note = " [{}]"
    """Reference to a note, after a number"""

    def report(self, report: Report) -> str:
        """All tables, between a summary (claims agreed / undecided / contradicted) and the differences from the paper."""
        parts = [
            self.heading(TITLE, 1),
            self.sentences(findings(report.summary)),
            self._summary(report.summary.counts),
            self.sentences(details(report)),
            self.sentences(READING),
        ]
        parts += [self.table(table) for table in report.tables]
        if report.summary.substituted:
            parts += [self.heading(APART, 2), self._summary(report.summary.substituted)]
        parts += [self.heading("What differs from the paper", 2), self.sentences(departures(report))]
        return self._joined(parts) + "\n"

    def _summary(self, counts: Sequence[Count]) -> str:
        """Measured numbers and claims of each table; empty if there are none."""
        rows = [[self.cell(word) for word in row] for row in summary_rows(counts)]
        return self.grid(SUMMARY_HEADER, rows) if rows else ""

    def table(self, table: ReproducedTable) -> str:
        """A table with all its columns, and the commands that measure what is missing."""
        commands = self.commands(table.commands) if table.commands else ""
        return self._joined([self.heading(table_title(table), 2), *map(self.column, table.columns), commands])

    def column(self, column: ReproducedColumn) -> str:
        """A column: its scale, lines, order of methods, and the differences that the paper claims."""
        notes, rows = footnotes(column.all_lines), []
        for line in column.all_lines:
            words = [self.cell(word) for word in line_words(line, column)]
            words[2] += self.note.format(notes[line.note]) if line.note else ""
            rows.append(words)
        claims = [[self.cell(word) for word in claim_words(claim)] for claim in column.claims if claim.ours is not None]
        title = f"{many(len(claims), 'difference')} that the paper's numbers claim, and ours"
        title += f" ({column.setting.substitute})" if column.setting.substitute else ""
        return self._joined(
            [
                self.heading(column_title(column), 3),
                self.grid(HEADER, rows, notes),
                self.sentences(column_sentences(column)),
                self.grid(CLAIM_HEADER, claims, title=title) if claims else "",
            ]
        )

    def _joined(self, parts: Iterable[str]) -> str:
        return "\n\n".join(part for part in parts if part)

    def heading(self, text: str, level: int) -> str:
        """Heading of the report (1), a table (2) or a column (3)."""
        return f"{'#' * level} {text}"

    def sentences(self, texts: Sequence[str]) -> str:
        """A list."""
        return "\n".join(f"- {text}" for text in texts)

    def grid(
        self,
        header: Sequence[str],
        rows: Sequence[Sequence[str]],
        notes: Mapping[str, int] | None = None,
        title: str = "",
    ) -> str:
        """A header, rows of cells, and notes; a grid with a title may be collapsed."""
        table = markdown_table(header, rows, right=range(1, len(header) - 1))
        return self._joined([table, "\n".join(f"[{number}] {note}  " for note, number in (notes or {}).items())])

    def commands(self, lines: Sequence[str]) -> str:
        """Commands that measure the rest."""
        return "\n".join(["What is missing is measured by:", "", "```sh", *lines, "```"])

    def cell(self, word: str) -> str:
        """Content of a grid's cell."""
        return word


class Notebook(Markdown):
    """Markdown that a notebook renders, with details collapsed, and no headings of the notebook's."""

    def heading(self, text: str, level: int) -> str:
        return f"**{text}**"

    def grid(
        self,
        header: Sequence[str],
        rows: Sequence[Sequence[str]],
        notes: Mapping[str, int] | None = None,
        title: str = "",
    ) -> str:
        table = super().grid(header, rows, notes)
        return self._collapsed(title, table) if title else table

    def commands(self, lines: Sequence[str]) -> str:
        said, *listing = super().commands(lines).split("\n")
        return self._collapsed(said, "\n".join(listing))

    def _collapsed(self, title: str, text: str) -> str:
        return f"<details markdown='1'><summary>{title}</summary>\n\n{text}\n\n</details>"


class Latex(Markdown):
    """A part of a document that loads booktabs and longtable."""

    note = r"\textsuperscript{{{}}}"

    def report(self, report: Report) -> str:
        return r"% \usepackage[utf8]{inputenc}, \usepackage{booktabs,longtable}" + f"\n\n{super().report(report)}"

    def heading(self, text: str, level: int) -> str:
        return rf"\{'sub' * (level - 1)}section{{{latex_escaped(text)}}}"

    def sentences(self, texts: Sequence[str]) -> str:
        items = [rf"\item {latex_escaped(text)}" for text in texts]
        return "\n".join([r"\begin{itemize}", *items, r"\end{itemize}"]) if items else ""

    def grid(
        self,
        header: Sequence[str],
        rows: Sequence[Sequence[str]],
        notes: Mapping[str, int] | None = None,
        title: str = "",
    ) -> str:
        # The group makes long rows fit on a page.
        begin = r"{\footnotesize\setlength{\tabcolsep}{2pt}\begin{longtable}" + f"{{{'l' * len(header)}}}"
        head, *lines = [" & ".join(row) + r" \\" for row in (map(latex_escaped, header), *rows)]
        table = [begin, r"\toprule", head, r"\midrule", r"\endhead", *lines, r"\bottomrule", r"\end{longtable}}"]
        numbered = (f"{self.note.format(number)} {latex_escaped(note)}" for note, number in (notes or {}).items())
        return self._joined(["\n".join(table), *numbered])

    def commands(self, lines: Sequence[str]) -> str:
        return "\n".join(["What is missing is measured by:", r"\begin{verbatim}", *lines, r"\end{verbatim}"])

    def cell(self, word: str) -> str:
        is_signed = word[0] in "+-" and word[1:].replace(".", "", 1).isdigit()  # needs a mathematical sign
        return f"${word}$" if is_signed else latex_escaped(word)


MARKDOWN, NOTEBOOK, LATEX = Markdown(), Notebook(), Latex()


@display.register
def _(shown: ReproducedColumn) -> Display:
    return Display(NOTEBOOK.column(shown), MARKDOWN.column(shown))


@display.register
def _(shown: ReproducedTable) -> Display:
    return Display(NOTEBOOK.table(shown), MARKDOWN.table(shown))


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
    """All tables as CSV, with a line for each cell, rank correlation and claimed difference; unknown fields are empty."""
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
            "command": line.command,
        }
    for order, whose in ((column.ranked, ""), (column.ranked_own, "of the paper's own ")):
        if order is not None:
            low, high = order.interval or (None, None)
            facts = {"ours": order.correlation, "low": low, "high": high, "note": f"{whose}{order.methods} rows"}
            yield {"kind": "rank correlation", **facts}
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
            "paired": claim.gap.paired if claim.gap else None,
            "opponent": claim.group,
            "within_paper_noise": claim.is_noise,
            "ours_seeds": claim.seeds or None,
            "state": claim.verdict,
            "note": " against ".join(claim.rows) if any(claim.rows) else "",
        }


#: Names of formats (`retrofit report --format`).
FORMATS: dict[str, Callable[[Report], str]] = {
    "markdown": MARKDOWN.report,
    "latex": LATEX.report,
    "csv": spreadsheet,
}
