"""A report as Markdown, with columns aligned so that it can be read as text."""

from collections.abc import Iterable, Iterator, Sequence

from .report import Block, Report, TableReport
from .report_words import (
    CLAIM_HEADER,
    HEADER,
    READING,
    TITLE,
    aligned,
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


def markdown(report: Report) -> str:
    """All tables, between a summary and what differs from the paper."""
    parts = [f"# {TITLE}", _list(summary(report)), _list(READING)]
    parts += [table_markdown(table) for table in report.tables]
    parts += ["## What differs from the paper", _list(departures(report))]
    return "\n\n".join(part for part in parts if part) + "\n"


def table_markdown(table: TableReport) -> str:
    """A table with all of its columns, and the command that measures what is missing."""
    return "\n\n".join(part for part in _table(table) if part)


def block_markdown(block: Block) -> str:
    """A column."""
    return "\n\n".join(part for part in _block(block) if part)


def _table(table: TableReport) -> Iterator[str]:
    yield f"## {table_title(table)}"
    for block in table.blocks:
        yield from _block(block)
    if table.commands:
        yield "What is missing is measured by:"
        yield "\n".join(["```sh", *table.commands, "```"])


def _block(block: Block) -> Iterator[str]:
    yield f"### {block_title(block)}"
    numbers = footnotes(block.lines)
    rows = []
    for line in block.lines:
        words = list(line_words(line, block))
        words[2] += f" [{numbers[line.note]}]" if line.note else ""
        rows.append(words)
    yield _grid(HEADER, rows)
    yield "\n".join(f"[{number}] {note}  " for note, number in numbers.items())
    yield _list(block_sentences(block))
    if claims := known_claims(block):
        yield _grid(CLAIM_HEADER, [claim_words(claim) for claim in claims])


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = aligned([header, *rows])
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def _list(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)
