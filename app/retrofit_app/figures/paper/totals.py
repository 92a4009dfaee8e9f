"""How many of the paper's claims hold, in total and per table."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ..palette import Palette

VERDICTS = ("agreed", "undecided", "contradicted")


def totals(summary: Any, tables: Mapping[str, Any], titles: Mapping[str, str], palette: Palette) -> str:
    """A bar for each group of opponents, and below a line for each table, whose name can be clicked.

    Args:
        summary: a `Summary` of all tables.
        tables: name -> the table's own `Summary`.
        titles: name -> the table's title.
    """
    body = "".join(_line(name, titles[name], of_table) for name, of_table in tables.items() if of_table.numbers)
    heads = ("table", "numbers measured", "informative opponents", "easy opponents")
    head = "".join(f"<th scope='col'>{words}</th>" for words in heads)
    return (
        f"{bars(summary, palette)}"
        f"<div class='retrofit-book retrofit-cells retrofit-totals' style='{palette.css}' role='region' tabindex='0' "
        f"aria-label='The claims of each table'><table><thead><tr class='second'>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def groups(claims: Iterable[Any]) -> dict[str, tuple[str, Sequence[Any]]]:
    """Group of opponents -> what it is and the claims against it, the easy ones first."""
    from retrofit_core.experiments.report import opponents

    easy, informative, clear = opponents(claims)
    return {
        "Easy opponents": ("those that lose clearly in the paper nearly everywhere", easy),
        "Informative opponents": ("the best parent, the ensemble, LP, another score", informative),
        "of these beyond the paper's own noise": ("the paper's difference is more than two of its deviations", clear),
    }


def bars(summary: Any, palette: Palette) -> str:
    """A bar for each group of opponents."""
    drawn = "".join(
        f"<div class='group'><div><b>{name}</b><small>{words}</small></div>{_bar(claims)}</div>"
        for name, (words, claims) in groups(summary.decided()).items()
    )
    key = "".join(f"<span class='{verdict}'>{verdict}</span>" for verdict in VERDICTS)
    return f"<div class='retrofit-totals' style='{palette.css}'><p class='key'>{key}</p>{drawn}</div>"


def _line(name: str, title: str, summary: Any) -> str:
    (_, easy), (_, informative), _ = groups(summary.decided()).values()
    button = f"<button type='button' data-cell='{escape(name, quote=True)}'>{escape(title)}</button>"
    return (
        f"<tr><td class='name'>{button}</td><td class='number'>{summary.measured()} of {summary.numbers}</td>"
        f"<td>{_bar(informative)}</td><td>{_bar(easy)}</td></tr>"
    )


def _bar(claims: Sequence[Any]) -> str:
    """A bar with one part per verdict, as wide as its share, with its number."""
    if not claims:
        return "<span class='none'>–</span>"
    counts = count(claims)
    words = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    parts = "".join(
        f"<i class='{verdict}' style='flex-grow:{number}'>{number}</i>" for verdict, number in counts.items() if number
    )
    return f"<div class='bar' role='img' aria-label='{words}' title='{words}'>{parts}</div>"


def count(claims: Iterable[Any]) -> dict[str, int]:
    """How many claims have each verdict."""
    found = Counter(claim.verdict for claim in claims)
    return {verdict: found[verdict] for verdict in VERDICTS}
