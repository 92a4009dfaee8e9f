"""A report as LaTeX: a part of a document that loads booktabs and longtable."""

from collections.abc import Iterable, Iterator, Sequence

from .report import Block, Report, TableReport
from .report_words import (
    CLAIM_HEADER,
    HEADER,
    READING,
    TITLE,
    block_sentences,
    block_title,
    claim_words,
    departures,
    footnotes,
    known_claims,
    line_words,
    summary,
    table_title,
)

ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "%": r"\%",
        "&": r"\&",
        "_": r"\_",
        "#": r"\#",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "±": r"$\pm$",
    }
)

#: Opens a group in which the longest rows fit on a page.
SMALL = r"{\footnotesize\setlength{\tabcolsep}{2pt}"


def latex(report: Report) -> str:
    """All tables, between a summary and what differs from the paper."""
    parts = [
        r"% \usepackage[utf8]{inputenc}, \usepackage{booktabs,longtable}",
        rf"\section{{{escaped(TITLE)}}}",
        _list(summary(report)),
        _list(READING),
    ]
    for table in report.tables:
        parts += _table(table)
    parts += [r"\subsection{What differs from the paper}", _list(departures(report))]
    return "\n\n".join(part for part in parts if part) + "\n"


def escaped(text: str) -> str:
    """Text in which no character is a command."""
    return text.translate(ESCAPES)


def _table(table: TableReport) -> Iterator[str]:
    yield rf"\subsection{{{escaped(table_title(table))}}}"
    for block in table.blocks:
        yield from _block(block)
    if table.commands:
        yield "\n".join(["What is missing is measured by:", r"\begin{verbatim}", *table.commands, r"\end{verbatim}"])


def _block(block: Block) -> Iterator[str]:
    yield rf"\subsubsection{{{escaped(block_title(block))}}}"
    numbers = footnotes(block.lines)
    rows = []
    for line in block.lines:
        words = [_cell(word) for word in line_words(line, block)]
        words[2] += rf"\textsuperscript{{{numbers[line.note]}}}" if line.note else ""
        rows.append(words)
    yield _grid(HEADER, rows)
    yield "\n\n".join(rf"\textsuperscript{{{number}}} {escaped(note)}" for note, number in numbers.items())
    yield _list(block_sentences(block))
    if claims := known_claims(block):
        yield _grid(CLAIM_HEADER, [[_cell(word) for word in claim_words(claim)] for claim in claims])


def _cell(word: str) -> str:
    """A cell's words; a lone number with a sign gets that of mathematics."""
    is_signed = word[0] in "+-" and word[1:].replace(".", "", 1).isdigit()
    return f"${word}$" if is_signed else escaped(word)


def _grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [" & ".join(row) + r" \\" for row in rows]
    head = " & ".join(escaped(word) for word in header) + r" \\"
    begin = rf"{SMALL}\begin{{longtable}}{{{'l' * len(header)}}}"
    return "\n".join([begin, r"\toprule", head, r"\midrule", r"\endhead", *lines, r"\bottomrule", r"\end{longtable}}"])


def _list(sentences: Iterable[str]) -> str:
    items = [rf"\item {escaped(sentence)}" for sentence in sentences]
    return "\n".join([r"\begin{itemize}", *items, r"\end{itemize}"]) if items else ""
