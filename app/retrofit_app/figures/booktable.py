"""Book-style tables of results: the page, CSV and LaTeX share one set of cells, so that all round alike."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from retrofit_core.system.tables import latex_escaped

from .palette import Palette

MINUS, DASH = "\N{MINUS SIGN}", "–"


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: str
    help: str = ""
    """Its title's tooltip"""
    is_number: bool = True
    """Numbers align right, words left"""


@dataclass(frozen=True)
class Line:
    """A row of a table."""

    cells: tuple[str, ...]
    """As shown and saved; "" for nothing"""
    best: frozenset[int] = frozenset()
    """Columns in which it is best"""
    is_reference: bool = False
    """It is below a rule, for comparison"""
    heading: str = ""
    """For the lines that follow; then without cells"""


@dataclass(frozen=True)
class Table:
    """Columns and lines."""

    name: str
    """The table's name for screen readers"""
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    """Sentences below it"""

    def html(self, palette: Palette) -> str:
        """For a page: the first column stays in place when the rest scrolls sideways."""
        head = "".join(map(_head, self.columns))
        body, references = [], False
        for line in self.lines:
            body.append(self._row(line, first_reference=line.is_reference and not references))
            references = line.is_reference
        return (
            f"<div class='retrofit-book' style='{palette.css}' tabindex='0' role='region' "
            f"aria-label='{escape(self.name, quote=True)}'>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
        )

    def _row(self, line: Line, first_reference: bool) -> str:
        if line.heading:
            across = len(self.columns)
            return f"<tr class='group'><th scope='rowgroup' colspan='{across}'><span>{escape(line.heading)}</span></th></tr>"
        name, *rest = line.cells
        html = f"<th scope='row' class='words'>{escape(name)}</th>"
        for index, (text, column) in enumerate(zip(rest, self.columns[1:], strict=True), start=1):
            value = escape(text or ("" if line.is_reference else DASH))
            content = f"<b>{value}</b><span class='unseen'> (best)</span>" if index in line.best else value
            html += f"<td class='{_kind(column)}{'' if text else ' none'}'>{content}</td>"
        kinds = [name for name, on in (("reference", line.is_reference), ("ruled", first_reference)) if on]
        return f"<tr class='{' '.join(kinds)}'>{html}</tr>"

    def csv(self) -> str:
        """One line per row; a column "group" if there are groups; hyphens for minus signs."""
        text, group = io.StringIO(), ""
        grouped = any(line.heading for line in self.lines)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*(["group"] if grouped else []), *(column.title for column in self.columns)])
        for line in self.lines:
            if line.heading:
                group = line.heading
                continue
            writer.writerow([*([group] if grouped else []), *(_safe(cell.replace(MINUS, "-")) for cell in line.cells)])
        return text.getvalue()

    def latex(self) -> str:
        """A tabular with booktabs rules; the best is bold."""
        sides = "".join("r" if column.is_number else "l" for column in self.columns)
        titles = " & ".join(latex_escaped(column.title) for column in self.columns)
        rows, ruled = [], True
        for line in self.lines:
            if line.heading:
                rows += [] if ruled else [r"\midrule"]
                rows.append(rf"\multicolumn{{{len(self.columns)}}}{{l}}{{\textit{{{latex_escaped(line.heading)}}}}} \\")
                continue
            if line.is_reference and not ruled:
                rows.append(r"\midrule")
            ruled = line.is_reference
            cells = (latex_escaped(cell or ("" if line.is_reference else DASH)) for cell in line.cells)
            bold = (rf"\textbf{{{cell}}}" if index in line.best else cell for index, cell in enumerate(cells))
            rows.append(f"{' & '.join(bold)} \\\\")
        notes = [f"% {note}" for note in self.notes]
        lines = [
            r"% \usepackage{booktabs}",
            rf"\begin{{tabular}}{{{sides}}}",
            r"\toprule",
            rf"{titles} \\",
            r"\midrule",
        ]
        return "\n".join([*lines, *rows, r"\bottomrule", r"\end{tabular}", *notes]) + "\n"


def ranked(values: Sequence[float | None]) -> set[int]:
    """The indices of the best values; none if fewer than two are known or all are equal."""
    known = [value for value in values if value is not None]
    if len(known) < 2 or len(set(known)) == 1:
        return set()
    return {index for index, value in enumerate(values) if value == max(known)}


def _head(column: Column) -> str:
    tip = escape(column.help, quote=True)
    return f"<th scope='col' class='{_kind(column)}' title='{tip}'>{escape(column.title)}</th>"


def _kind(column: Column) -> str:
    return "number" if column.is_number else "words"


def _safe(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula; signed numbers stay unchanged."""
    return cell if not cell or cell[0] not in "=@\t\r" and not re.match(r"[+-][^\d.]", cell) else f"'{cell}"
