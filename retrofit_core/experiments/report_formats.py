"""A report as Markdown (with aligned columns), LaTeX (booktabs and longtable) and HTML (for notebooks).

`Format` defines the content, and each format has a method for each part of a document. The HTML is readable on light and dark
pages, without scripts or style sheets.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

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

    between = "\n\n"
    note = " [{}]"
    """Reference to a note, after a number"""

    def heading(self, text: str, level: int, badge: str = "") -> str:
        """Heading of the report (1), a table (2) or a column (3), whose badge is its scale."""
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
                self.heading(block_title(block), 3, block.badge),
                self.grid(HEADER, rows, notes, ""),
                self.sentences(block_sentences(block)),
                self.grid(CLAIM_HEADER, claims, {}, title) if claims else "",
            ]
        )

    def _joined(self, parts: Iterable[str]) -> str:
        return self.between.join(part for part in parts if part)


class Markdown(Format):
    """Markdown with aligned columns, readable as text."""

    def heading(self, text: str, level: int, badge: str = "") -> str:
        return f"{'#' * level} {text}"

    def sentences(self, texts: Sequence[str]) -> str:
        return "\n".join(f"- {text}" for text in texts)

    def grid(self, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Mapping[str, int], title: str) -> str:
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        padded = [
            " | ".join(word.ljust(width) for word, width in zip(row, widths, strict=True))
            for row in (header, ["-" * width for width in widths], *rows)
        ]
        table = "\n".join(f"| {line} |" for line in padded)
        return self._joined([table, "\n".join(f"[{number}] {note}  " for note, number in notes.items())])

    def commands(self, lines: Sequence[str]) -> str:
        return "\n".join(["What is missing is measured by:", "", "```sh", *lines, "```"])


ESCAPES = str.maketrans(
    {sign: rf"\{sign}" for sign in "%&_#${}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "±": r"$\pm$"}
)


def escaped(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    return text.translate(ESCAPES)


class Latex(Format):
    """A part of a document that loads booktabs and longtable."""

    note = r"\textsuperscript{{{}}}"

    def report(self, report: Report) -> str:
        return r"% \usepackage[utf8]{inputenc}, \usepackage{booktabs,longtable}" + f"\n\n{super().report(report)}"

    def heading(self, text: str, level: int, badge: str = "") -> str:
        return rf"\{'sub' * (level - 1)}section{{{escaped(text)}}}"

    def sentences(self, texts: Sequence[str]) -> str:
        items = [rf"\item {escaped(text)}" for text in texts]
        return "\n".join([r"\begin{itemize}", *items, r"\end{itemize}"]) if items else ""

    def grid(self, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Mapping[str, int], title: str) -> str:
        # The group makes long rows fit on a page.
        begin = r"{\footnotesize\setlength{\tabcolsep}{2pt}\begin{longtable}" + f"{{{'l' * len(header)}}}"
        head, *lines = [" & ".join(row) + r" \\" for row in (map(escaped, header), *rows)]
        table = [begin, r"\toprule", head, r"\midrule", r"\endhead", *lines, r"\bottomrule", r"\end{longtable}}"]
        return self._joined(["\n".join(table), *(f"{self.note.format(notes[note])} {escaped(note)}" for note in notes)])

    def commands(self, lines: Sequence[str]) -> str:
        return "\n".join(["What is missing is measured by:", r"\begin{verbatim}", *lines, r"\end{verbatim}"])

    def cell(self, word: str) -> str:
        is_signed = word[0] in "+-" and word[1:].replace(".", "", 1).isdigit()  # needs a mathematical sign
        return f"${word}$" if is_signed else escaped(word)


#: Numbers are right-aligned; the first and last columns are words.
LEFT, RIGHT = "text-align: left", "text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums"
BADGE = "border: 1px solid; border-radius: 1em; padding: 0 0.6em; font-size: 85%; opacity: 0.75; white-space: nowrap"


class Html(Format):
    """For notebooks."""

    between = "\n"

    def heading(self, text: str, level: int, badge: str = "") -> str:
        if level < 3:
            return f"<h4>{escape(text)}</h4>"
        badge = f' <span style="{BADGE}">scale {escape(badge)}</span>' if badge else ""
        return f"<p><b>{escape(text)}</b>{badge}</p>"

    def sentences(self, texts: Sequence[str]) -> str:
        lines = "<br>".join(map(escape, texts))
        return f'<p style="font-size: 85%">{lines}</p>' if lines else ""

    def grid(self, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Mapping[str, int], title: str) -> str:
        styles = [LEFT, *[RIGHT] * (len(header) - 2), LEFT]

        def line(words: Sequence[str], tag: str) -> str:
            cells = (f'<{tag} style="{style}">{word}</{tag}>' for word, style in zip(words, styles, strict=True))
            return f"<tr>{''.join(cells)}</tr>"

        body = "".join(line(row, "td") for row in rows)
        table = f"<table><thead>{line(list(map(escape, header)), 'th')}</thead><tbody>{body}</tbody></table>"
        if title:
            return f"<details><summary>{title}</summary>{table}</details>"
        numbered = [f"[{number}] {note}" for note, number in notes.items()]
        return self._joined(
            [table if rows else "<p><i>not measured yet</i></p>", *(self.sentences([n]) for n in numbered)]
        )

    def commands(self, lines: Sequence[str]) -> str:
        text = escape("\n".join(lines))
        return f"<details><summary>What is missing is measured by</summary><pre>{text}</pre></details>"

    def cell(self, word: str) -> str:
        return escape(word)


MARKDOWN, LATEX, HTML = Markdown(), Latex(), Html()
