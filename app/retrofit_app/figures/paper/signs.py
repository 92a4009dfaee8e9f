"""The differences that the paper's numbers claim, and ours: do the signs agree?"""

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

from ..drawing import axis, edge, error_bars, up_paper
from ..palette import Palette
from ..picture import Picture
from ..words import listing
from .rows import INFORMATIVE, OURS, at, dot_plot, dots, paper_mark, titled

#: A verdict's symbol, line width and text in the legend.
VERDICTS = {
    "agreed": ("circle", 1, "ours, the paper's sign"),
    "contradicted": ("x", 1, "ours, the other sign"),
    "undecided": ("circle-open", 2, "ours, undecided (interval contains 0)"),
    "no claim": ("square-open", 2, "ours, 0 in the paper"),
}
#: Words for one difference with a verdict, and for several.
COUNTED = {
    "agreed": ("has the paper's sign", "have the paper's sign"),
    "contradicted": ("has the other sign", "have the other sign"),
    "undecided": ("is undecided", "are undecided"),
    "no claim": ("is 0 in the paper", "are 0 in the paper"),
}


def differences(column: Any, palette: Palette, disagreeing: bool = False) -> Picture:
    """The differences between rows that the paper's numbers claim, and ours with 95 % intervals: do the signs agree?

    Drawn are the paper's own methods against opponents that do not lose by dozens of points, whose size would hide these, and
    all with the other sign; the others are counted in the caption, and drawn if there is nothing else.

    Args:
        column: see `beside_the_paper`.
        disagreeing: whether to draw only those with the other sign.
    Raises:
        ValueError: none of the differences is measured.
    """
    known = [claim for claim in column.claims if claim.ours is not None]
    if not known:
        raise ValueError(f"none of the paper's differences in {column.table}, {column.name} is measured.")
    claims = [claim for claim in known if _is_drawn(claim, disagreeing)] or known
    differences = [
        (f"{escape(claim.left)} \N{MINUS SIGN} {escape(claim.right)}{at(claim.badge)}", claim) for claim in claims
    ]
    printed = [(claim.paper, name) for name, claim in differences]
    traces = [dots(printed, "paper", "%{y}, paper: %{x:+.1f} points", paper_mark(palette))]
    colours = {
        "agreed": palette.accent,
        "contradicted": palette.grouping,
        "undecided": palette.ink,
        "no claim": palette.muted,
    }
    for verdict, (symbol, width, title) in VERDICTS.items():
        of_verdict = [(name, claim) for name, claim in differences if claim.verdict == verdict]
        marks = dots(
            [(claim.ours, name) for name, claim in of_verdict],
            title,
            "%{y}, ours: %{x:+.2f} points",
            {"symbol": symbol, "size": 10, "color": colours[verdict], "line": {"width": width}},
            error_x=error_bars(
                [claim.interval[1] - claim.ours for _, claim in of_verdict],
                colours[verdict],
                arrayminus=[claim.ours - claim.interval[0] for _, claim in of_verdict],
            ),
        )
        traces.append(marks)
    names = [name for name, _ in differences]
    finding = f"Of {_many(known)} that the paper's numbers claim, {_counted(known)}."
    finding += f" Drawn are {len(claims)}, of which {_counted(claims)}." if len(claims) < len(known) else ""
    against = [f"{claim.left} against {claim.right}" for claim in known if claim.verdict == "contradicted"]
    finding += f" The other sign: {listing(against)}." if against else ""
    return dot_plot(
        palette,
        traces,
        names,
        f"Dot plot of differences in accuracy, the paper's and ours ({column.badge})",
        finding,
        title=f"{titled(column)}: the paper's differences, and ours",
        shapes=[up_paper(0, edge(palette.muted, 1.5))],
        xaxis=axis("points of accuracy"),
    )


def _is_drawn(claim: Any, disagreeing: bool) -> bool:
    if claim.verdict == "contradicted":
        return True
    return not disagreeing and claim.group == INFORMATIVE and claim.left.startswith(OURS)


def _many(claims: Sequence[Any]) -> str:
    return "1 difference" if len(claims) == 1 else f"{len(claims)} differences"


def _counted(claims: Sequence[Any]) -> str:
    """How many of these have which verdict."""
    numbers = Counter(claim.verdict for claim in claims)
    return listing([f"{n} {COUNTED[verdict][n > 1]}" for verdict in COUNTED if (n := numbers[verdict])])
