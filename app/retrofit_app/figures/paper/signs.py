"""The differences that the paper's numbers claim, and ours: do the signs agree?"""

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

from ..drawing import axis, edge, error_bars, mark, up_paper
from ..palette import Palette
from ..picture import Picture
from ..words import listing
from .rows import INFORMATIVE, OURS, at, dot_plot, dots, paper_mark, title_of

#: A verdict's symbol, line width, colour of the palette and text in the legend.
VERDICTS = {
    "agreed": ("circle", 1, "accent", "ours, the paper's sign"),
    "contradicted": ("x", 1, "grouping", "ours, the other sign"),
    "undecided": ("circle-open", 2, "ink", "ours, undecided (interval contains 0)"),
    "no claim": ("square-open", 2, "muted", "ours, 0 in the paper"),
}


def differences(column: Any, palette: Palette, disagreeing: bool = False) -> Picture:
    """The differences between rows that the paper's numbers claim, and ours with 95 % intervals: do the signs agree?

    Drawn are the paper's own methods against opponents that do not lose by dozens of points, whose size would hide these, and
    all with the other sign; the others are counted in the caption, and drawn if there is nothing else.

    Args:
        column: a `ReproducedColumn`.
        disagreeing: whether to draw only those with the other sign.
    Raises:
        ValueError: none of the differences is measured.
    """
    measured = [claim for claim in column.claims if claim.ours is not None]
    if not measured:
        raise ValueError(f"none of the paper's differences in {column.table}, {column.name} is measured.")
    claims = [claim for claim in measured if _is_drawn(claim, disagreeing)] or measured
    names = [f"{escape(claim.left)} \N{MINUS SIGN} {escape(claim.right)}{at(claim.badge)}" for claim in claims]
    numbers = Counter(claim.verdict for claim in measured)
    counts = listing([f"{numbers[verdict]} {verdict}" for verdict in VERDICTS if numbers[verdict]])
    finding = f"Of {len(measured)} differences that the paper's numbers claim, {counts}; {len(claims)} are drawn."
    against = [f"{claim.left} against {claim.right}" for claim in measured if claim.verdict == "contradicted"]
    finding += f" The other sign: {listing(against)}." if against else ""
    what = f"Dot plot of differences in accuracy, the paper's and ours ({column.badge})"
    return claim_dots(claims, names, palette, what, finding, f"{title_of(column)}: the paper's differences, and ours")


def claim_dots(
    claims: Sequence[Any], names: Sequence[str], palette: Palette, what: str, finding: str, title: str
) -> Picture:
    """A row for each claim: the paper's difference, and ours with its 95 % interval in the look of its verdict."""
    printed = [(claim.paper, name) for name, claim in zip(names, claims, strict=True)]
    traces = [dots(printed, "paper", "%{y}, paper: %{x:+.1f} points", paper_mark(palette))]
    for verdict, (symbol, width, colour, words) in VERDICTS.items():
        of_verdict = [(name, claim) for name, claim in zip(names, claims, strict=True) if claim.verdict == verdict]
        marks = dots(
            [(claim.ours, name) for name, claim in of_verdict],
            words,
            "%{y}, ours: %{x:+.2f} points",
            mark(symbol, 10, getattr(palette, colour), getattr(palette, colour), width),
            error_x=error_bars(
                [claim.interval[1] - claim.ours for _, claim in of_verdict],
                getattr(palette, colour),
                arrayminus=[claim.ours - claim.interval[0] for _, claim in of_verdict],
            ),
        )
        traces.append(marks)
    return dot_plot(
        palette,
        traces,
        names,
        what,
        finding,
        title=title,
        shapes=[up_paper(0, edge(palette.muted, 1.5))],
        xaxis=axis("points of accuracy"),
    )


def _is_drawn(claim: Any, disagreeing: bool) -> bool:
    if claim.verdict == "contradicted":
        return True
    return not disagreeing and claim.group == INFORMATIVE and claim.left.startswith(OURS)
