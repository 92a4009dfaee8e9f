"""The differences that the paper's numbers claim, and ours: do the signs agree?"""

from collections import Counter
from html import escape
from typing import Any

from ..drawing import BELOW, axis, drawn, edge, room, spread, up_paper
from ..palette import Palette
from ..picture import Picture
from ..words import listing
from .rows import ENTRY, NUMBERS, ROW, TITLE, at, dots, listed, paper_mark

#: A verdict's symbol, line width and text in the legend.
VERDICTS = {
    "agreed": ("circle", 1, "ours, the paper's sign"),
    "contradicted": ("x", 1, "ours, the other sign"),
    "undecided": ("circle-open", 2, "ours, undecided (interval contains 0)"),
}
#: Words for one difference with a verdict, and for several.
COUNTED = {
    "agreed": ("has its sign", "have its sign"),
    "contradicted": ("has the other one", "have the other one"),
    "undecided": ("is undecided", "are undecided"),
    "no claim": ("is 0 in the paper", "are 0 in the paper"),
}


def differences(column: Any, palette: Palette) -> Picture:
    """The differences between rows that the paper's numbers claim, and ours with 95 % intervals: do the signs agree?

    Args:
        column: see `beside_the_paper`.
    Raises:
        ValueError: none of the differences is measured.
    """
    claims = [claim for claim in column.block.claims if claim.ours is not None]
    if not claims:
        raise ValueError(f"none of the paper's differences in {column.table}, {column.name} is measured.")
    differences = [
        (f"{escape(claim.left)} \N{MINUS SIGN} {escape(claim.right)}{at(claim.badge)}", claim) for claim in claims
    ]
    printed = [(claim.paper, name) for name, claim in differences]
    traces = [dots(printed, "paper", "%{y}, paper: %{x:+.1f} points", paper_mark(palette))]
    colours = {"agreed": palette.accent, "contradicted": palette.grouping, "undecided": palette.ink}
    for verdict, (symbol, width, title) in VERDICTS.items():
        of_verdict = [(name, claim) for name, claim in differences if claim.verdict == verdict]
        marks = dots(
            [(claim.ours, name) for name, claim in of_verdict],
            title,
            "%{y}, ours: %{x:+.2f} points",
            {"symbol": symbol, "size": 10, "color": colours[verdict], "line": {"width": width}},
            error_x=spread(
                [claim.interval[1] - claim.ours for _, claim in of_verdict],
                colours[verdict],
                arrayminus=[claim.ours - claim.interval[0] for _, claim in of_verdict],
            ),
        )
        traces.append(marks)
    names = [name for name, _ in differences]
    bottom = NUMBERS + TITLE + sum(trace["showlegend"] for trace in traces) * ENTRY + 8
    numbers = Counter(claim.verdict for claim in claims)
    counts = [f"{n} {COUNTED[verdict][n > 1]}" for verdict in COUNTED if (n := numbers[verdict])]
    of = "1 difference" if len(claims) == 1 else f"{len(claims)} differences"
    finding = f"Of {of} that the paper's numbers claim, {listing(counts)}."
    against = [f"{claim.left} against {claim.right}" for claim in claims if claim.verdict == "contradicted"]
    finding += f" The other sign: {listing(against)}." if against else ""
    return drawn(
        palette,
        traces,
        12 + bottom + ROW * len(claims),
        f"Dot plot of differences in accuracy, the paper's and ours ({column.badge})",
        finding,
        margin=(room(names), 12, 12, bottom),
        legend=BELOW,
        shapes=[up_paper(0, edge(palette.muted, 1.5))],
        xaxis=axis("points of accuracy"),
        yaxis=listed(names, palette, range=[len(claims) - 0.4, -0.6]),
    )
