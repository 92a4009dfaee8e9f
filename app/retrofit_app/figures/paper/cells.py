"""A table of the paper as HTML, with the paper's number, ours and the difference in clickable cells."""

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

from ..palette import Palette
from ..quantities import Quantity, quantity
from ..words import lettered, signed
from .rows import PARENT, REFERENCES, short

DASH = "–"
#: Texts in place of our number.
STATES = {"not measured": "measure", "refused": "refused"}
EXPLAINED = {
    "paper": "The mean that the paper prints. Bold: its best method.",
    "ours": "Our mean. Bold: our best method. Click it for its recipe, or for the command that measures it.",
    "difference": "Ours minus the paper's.",
}
#: Between row and column in the name of a cell.
BETWEEN = "|"


def cell_name(row: str, column: str) -> str:
    """A cell's name in addresses."""
    return f"{row}{BETWEEN}{column}"


def cells(
    columns: Sequence[Any],
    rows: Sequence[str],
    palette: Palette,
    scales: Mapping[str, str],
    marked: Mapping[str, Mapping[str, Sequence[str]]],
) -> str:
    """The table.

    Args:
        columns: `ReproducedColumn`s, one per name.
        rows: to show, in this order.
        scales: column -> how it differs from the paper.
        marked: column -> row -> the comparisons in which we contradict the paper.
    """
    lines = [{line.row: line for line in column.all_lines} for column in columns]
    printed = [any(line.paper is not None for line in of_column.values()) for of_column in lines]
    kinds = [quantity(column.metric) for column in columns]
    best = [_best(kind, of_column, rows) for kind, of_column in zip(kinds, lines, strict=True)]
    body = []
    for row in rows:
        inner = "".join(
            _cell(column, of_column.get(row), kind, has_paper, row in bold[0], row in bold[1], marked[column.name].get(row, ()))
            for column, of_column, kind, has_paper, bold in zip(columns, lines, kinds, printed, best, strict=True)
        )  # fmt: skip
        body.append(f"<tr><th scope='row' class='words'>{escape(lettered(row))}</th>{inner}</tr>")
    names = "".join(
        f"<th scope='colgroup' colspan='{3 if has_paper else 1}'><b>{escape(column.name)}</b>"
        f"{f'<small>{words}</small>' if (words := escape(scales[column.name])) else ''}</th>"
        for column, has_paper in zip(columns, printed, strict=True)
    )
    heads = "".join(
        f"<th scope='col'{'' if place else ' class=first'} title='{escape(EXPLAINED[word], quote=True)}'>{word}</th>"
        for has_paper in printed
        for place, word in enumerate(EXPLAINED if has_paper else ["ours"])
    )
    return (
        f"<div class='retrofit-book retrofit-cells' style='{palette.css}' role='region' tabindex='0' "
        f"aria-label='The paper&#39;s numbers beside ours'><table><thead><tr><th rowspan='2' class='words'>row</th>{names}</tr>"
        f"<tr class='second'>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def ranked(values: Sequence[float | None]) -> set[int]:
    """The indices of the best values; none if fewer than two are known or all are equal."""
    known = [value for value in values if value is not None]
    if len(known) < 2 or len(set(known)) == 1:
        return set()
    return {index for index, value in enumerate(values) if value == max(known)}


def _best(kind: Quantity, lines: Mapping[str, Any], rows: Collection[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The best shown methods by the paper's numbers and by ours, of those with as many sets of parents; only for accuracies."""
    methods = [row for row in rows if row in lines and not row.startswith(PARENT) and row not in REFERENCES]
    if not kind.is_accuracy:
        return frozenset(), frozenset()
    papers = ranked([lines[row].paper.mean if lines[row].paper else None for row in methods])
    alike = [row for row in methods if not lines[row].badge]  # of one scale
    sets = max((len(lines[row].by_parents) for row in alike), default=0)
    ours = ranked([lines[row].mean if row in alike and len(lines[row].by_parents) == sets else None for row in methods])
    return frozenset(methods[place] for place in papers), frozenset(methods[place] for place in ours)


def _cell(
    column: Any, line: Any, kind: Quantity, has_paper: bool, paper_best: bool, best: bool, against: Sequence[str]
) -> str:
    if line is None:
        return f"<td class='number none first'>{DASH}</td>" + "<td class='number none'></td>" * (2 if has_paper else 0)
    paper = _bold(DASH if line.paper is None else kind.plain(line.paper.mean), paper_best)
    unmeasured = line.mean is None
    words = STATES[line.state] if unmeasured else kind.plain(line.mean)
    tip = column.command(line.row) if line.state == "not measured" else "; ".join(filter(None, (line.badge, line.note)))
    if against:
        tip = f"The other way round than in the paper: {'; '.join(against)}"
    name = escape(cell_name(line.row, column.name), quote=True)
    known = f"{lettered(line.row)}, {column.name}: {words if not unmeasured else line.state}"
    known += f" ({line.badge})" if line.badge else ""
    at = f"<small>{escape(short(line.badge))}</small> " if line.badge else ""
    mark = "<i aria-hidden='true'>≠</i>" if against else ""
    number = (
        f"<button type='button' data-cell='{name}' title='{escape(tip, quote=True)}' aria-label='{escape(known, quote=True)}"
        f"{', contradicts the paper' if against else ''}'>{mark}{at}{_bold(words, best)}</button>"
    )
    ours = f"<td class='number{' none' if unmeasured else ''}{'' if has_paper else ' first'}'>{number}</td>"
    if not has_paper:
        return ours
    difference = "" if line.difference is None else signed(line.difference, kind.digits)
    return (
        f"<td class='number first{'' if line.paper else ' none'}'>{paper}</td>{ours}"
        f"<td class='number difference'>{difference}</td>"
    )


def _bold(words: str, is_best: bool) -> str:
    return f"<b>{words}</b><span class='unseen'> (best)</span>" if is_best else words
