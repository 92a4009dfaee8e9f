"""A report as Markdown (with aligned columns; in notebooks with collapsed parts) and LaTeX (booktabs and longtable).

`Format` defines the content, and each format has a method for each part of a document.
"""

from collections.abc import Iterable, Mapping, Sequence

from ..system.tables import latex_escaped, markdown_table
from .report import Report
from .report_parts import Block, TableReport
from .report_words import (
    APART,
    CLAIM_HEADER,
    HEADER,
    READING,
    SUMMARY_HEADER,
    TITLE,
    block_sentences,
    block_title,
    claim_words,
    departures,
    details,
    findings,
    footnotes,
    known_claims,
    line_words,
    many,
    summary_rows,
    table_title,
)
from .summary import Count


class Format:
    """Base class of formats. Parts without content are empty strings, which are left out."""

    note = " [{}]"
    """Reference to a note, after a number"""

    def heading(self, text: str, level: int) -> str:
        """Heading of the report (1), a table (2) or a column (3)."""
        raise NotImplementedError

    def sentences(self, texts: Sequence[str]) -> str:
        """A list."""
        raise NotImplementedError

    def grid(self, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Mapping[str, int], title: str) -> str:
        """A header, rows of cells, and notes; a grid with a title may be collapsed."""
        raise NotImplementedError

    def commands(self, lines: Sequence[str]) -> str:
        """Commands that measure the rest."""
        raise NotImplementedError

    def cell(self, word: str) -> str:
        """Content of a grid's cell."""
        return word

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
        return self.grid(SUMMARY_HEADER, rows, {}, "") if rows else ""

    def table(self, table: TableReport) -> str:
        """A table with all its columns, and the commands that measure what is missing."""
        commands = self.commands(table.commands) if table.commands else ""
        return self._joined([self.heading(table_title(table), 2), *map(self.block, table.blocks), commands])

    def block(self, block: Block) -> str:
        """A column: its scale, lines, order of methods, and the differences that the paper claims."""
        notes, rows = footnotes(block.lines), []
        for line in block.lines:
            words = [self.cell(word) for word in line_words(line, block)]
            words[2] += self.note.format(notes[line.note]) if line.note else ""
            rows.append(words)
        claims = [[self.cell(word) for word in claim_words(claim)] for claim in known_claims(block)]
        title = f"{many(len(claims), 'difference')} that the paper's numbers claim, and ours"
        title += f" ({block.substitute})" if block.substitute else ""
        return self._joined(
            [
                self.heading(block_title(block), 3),
                self.grid(HEADER, rows, notes, ""),
                self.sentences(block_sentences(block)),
                self.grid(CLAIM_HEADER, claims, {}, title) if claims else "",
            ]
        )

    def _joined(self, parts: Iterable[str]) -> str:
        return "\n\n".join(part for part in parts if part)


class Markdown(Format):
    """Markdown with aligned columns, readable as text."""

    def heading(self, text: str, level: int) -> str:
        return f"{'#' * level} {text}"

    def sentences(self, texts: Sequence[str]) -> str:
        return "\n".join(f"- {text}" for text in texts)

    def grid(self, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Mapping[str, int], title: str) -> str:
        table = markdown_table(header, rows, right=range(1, len(header) - 1))
        return self._joined([table, "\n".join(f"[{number}] {note}  " for note, number in notes.items())])

    def commands(self, lines: Sequence[str]) -> str:
        return "\n".join(["What is missing is measured by:", "", "```sh", *lines, "```"])


class Notebook(Markdown):
    """Markdown that a notebook renders, with details collapsed, and no headings of the notebook's."""

    def heading(self, text: str, level: int) -> str:
        return f"**{text}**"

    def grid(self, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Mapping[str, int], title: str) -> str:
        table = super().grid(header, rows, notes, title)
        return self._collapsed(title, table) if title else table

    def commands(self, lines: Sequence[str]) -> str:
        said, *listing = super().commands(lines).split("\n")
        return self._collapsed(said, "\n".join(listing))

    def _collapsed(self, title: str, text: str) -> str:
        return f"<details markdown='1'><summary>{title}</summary>\n\n{text}\n\n</details>"


class Latex(Format):
    """A part of a document that loads booktabs and longtable."""

    note = r"\textsuperscript{{{}}}"

    def report(self, report: Report) -> str:
        return r"% \usepackage[utf8]{inputenc}, \usepackage{booktabs,longtable}" + f"\n\n{super().report(report)}"

    def heading(self, text: str, level: int) -> str:
        return rf"\{'sub' * (level - 1)}section{{{latex_escaped(text)}}}"

    def sentences(self, texts: Sequence[str]) -> str:
        items = [rf"\item {latex_escaped(text)}" for text in texts]
        return "\n".join([r"\begin{itemize}", *items, r"\end{itemize}"]) if items else ""

    def grid(self, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Mapping[str, int], title: str) -> str:
        # The group makes long rows fit on a page.
        begin = r"{\footnotesize\setlength{\tabcolsep}{2pt}\begin{longtable}" + f"{{{'l' * len(header)}}}"
        head, *lines = [" & ".join(row) + r" \\" for row in (map(latex_escaped, header), *rows)]
        table = [begin, r"\toprule", head, r"\midrule", r"\endhead", *lines, r"\bottomrule", r"\end{longtable}}"]
        return self._joined(
            ["\n".join(table), *(f"{self.note.format(notes[note])} {latex_escaped(note)}" for note in notes)]
        )

    def commands(self, lines: Sequence[str]) -> str:
        return "\n".join(["What is missing is measured by:", r"\begin{verbatim}", *lines, r"\end{verbatim}"])

    def cell(self, word: str) -> str:
        is_signed = word[0] in "+-" and word[1:].replace(".", "", 1).isdigit()  # needs a mathematical sign
        return f"${word}$" if is_signed else latex_escaped(word)


MARKDOWN, NOTEBOOK, LATEX = Markdown(), Notebook(), Latex()
