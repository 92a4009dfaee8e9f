"""A report's tables as HTML for notebooks, readable on light and on dark pages, without scripts and style sheets."""

from collections.abc import Iterable, Sequence
from html import escape

from .report import Block, TableReport
from .report_words import (
    CLAIM_HEADER,
    HEADER,
    block_sentences,
    block_title,
    claim_words,
    footnotes,
    known_claims,
    line_words,
    many,
    table_title,
)

#: Columns of numbers stand right, the first and the last are words.
LEFT, RIGHT = "text-align: left", "text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums"
BADGE = "border: 1px solid; border-radius: 1em; padding: 0 0.6em; font-size: 85%; opacity: 0.75; white-space: nowrap"


def table_html(table: TableReport) -> str:
    """A table with all of its columns, and the command that measures what is missing."""
    parts = [f"<h4>{escape(table_title(table))}</h4>", *map(block_html, table.blocks)]
    if table.commands:
        commands = escape("\n".join(table.commands))
        parts.append(f"<details><summary>What is missing is measured by</summary><pre>{commands}</pre></details>")
    return "\n".join(parts)


def block_html(block: Block) -> str:
    """A column: its scale, its lines, the order of its methods, and the differences that the paper claims."""
    notes = footnotes(block.lines)
    rows = []
    for line in block.lines:
        words = list(line_words(line, block))
        words[2] += f" [{notes[line.note]}]" if line.note else ""
        rows.append(words)
    badge = f' <span style="{BADGE}">scale {escape(block.badge)}</span>' if block.badge else ""
    parts = [f"<p><b>{escape(block_title(block))}</b>{badge}</p>", _grid(HEADER, rows) if rows else _nothing()]
    parts += [_small(f"[{number}] {escape(note)}" for note, number in notes.items())]
    parts += [_small(map(escape, block_sentences(block)))]
    if claims := known_claims(block):
        signs = f"<summary>{many(len(claims), 'difference')} that the paper's numbers claim, and ours</summary>"
        parts.append(f"<details>{signs}{_grid(CLAIM_HEADER, [claim_words(claim) for claim in claims])}</details>")
    return "\n".join(part for part in parts if part)


def _nothing() -> str:
    return "<p><i>not measured yet</i></p>"


def _grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    last = len(header) - 1
    styles = [LEFT if index in (0, last) else RIGHT for index in range(len(header))]

    def line(words: Sequence[str], tag: str) -> str:
        cells = (f'<{tag} style="{style}">{escape(word)}</{tag}>' for word, style in zip(words, styles, strict=True))
        return f"<tr>{''.join(cells)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(header, 'th')}</thead><tbody>{body}</tbody></table>"


def _small(sentences: Iterable[str]) -> str:
    text = "<br>".join(sentences)
    return f'<p style="font-size: 85%">{text}</p>' if text else ""
