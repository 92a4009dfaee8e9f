"""The differences that the paper's numbers claim, and ours: does the sign hold?"""

from collections import Counter
from html import escape
from typing import Any

from ..drawing import BELOW, axis, edge, plot, room, up_paper
from ..palette import Palette
from ..picture import Picture, listing
from .rows import ENTRY, NUMBERS, ROW, TITLE, dots, listed, spread

#: What a difference's verdict looks like, and whether it is filled: the paper's sign, the other sign, or none.
VERDICTS = {"agreed": ("circle", True), "not agreed": ("x", True), "undecided": ("circle-open", False)}
#: What is said of one difference with a verdict, and of several.
COUNTED = {
    "agreed": ("has its sign", "have its sign"),
    "not agreed": ("has the other one", "have the other one"),
    "undecided": ("is undecided", "are undecided"),
    "no claim": ("is 0 in the paper", "are 0 in the paper"),
}


def differences(column: Any, palette: Palette) -> Picture:
    """The differences between rows that the paper's numbers claim, and ours with the 95 % interval: does the sign hold?

    Args:
        column: as in `beside_the_paper`.
    Raises:
        ValueError: none of the differences is measured.
    """
    claims = [claim for claim in column.block.claims if claim.ours is not None]
    if not claims:
        raise ValueError(f"none of the paper's differences in {column.table}, {column.name} is measured.")
    names = [f"{escape(claim.left)} \N{MINUS SIGN} {escape(claim.right)}" for claim in claims]
    tip = "%{y}, paper: %{x:+.1f} points<extra></extra>"
    marker = {"color": palette.muted, "line": {"width": 2}}
    traces = [dots([claim.paper for claim in claims], names, "paper", "diamond-open", marker, hovertemplate=tip)]
    colours = {"agreed": palette.accent, "not agreed": palette.grouping, "undecided": palette.ink}
    titles = {
        "agreed": "ours, the paper's sign",
        "not agreed": "ours, the other sign",
        "undecided": "ours, undecided (interval contains 0)",
    }
    for verdict, (symbol, filled) in VERDICTS.items():
        of_verdict = [(name, claim) for name, claim in zip(names, claims, strict=True) if claim.verdict == verdict]
        below = [claim.ours - claim.interval[0] for _, claim in of_verdict]
        above = [claim.interval[1] - claim.ours for _, claim in of_verdict]
        marks = dots(
            [claim.ours for _, claim in of_verdict],
            [name for name, _ in of_verdict],
            titles[verdict],
            symbol,
            {"color": colours[verdict], "line": {"width": 1 if filled else 2}},
            error_x=spread(above, colours[verdict], arrayminus=below),
            hovertemplate="%{y}, ours: %{x:+.2f} points<extra></extra>",
        )
        traces.append({**marks, "showlegend": bool(of_verdict)})
    entries = 1 + len({claim.verdict for claim in claims} & set(VERDICTS))
    bottom = NUMBERS + TITLE + entries * ENTRY + 8
    figure = plot(
        palette,
        traces,
        12 + bottom + ROW * len(claims),
        (room(names), 12, 12, bottom),
        legend=BELOW,
        shapes=[up_paper(0, edge(palette.muted, 1.5))],
        xaxis=axis("points of accuracy", zeroline=False),
        yaxis=listed(names, palette, range=[len(claims) - 0.4, -0.6]),
    )
    numbers = Counter(claim.verdict for claim in claims)
    counts = [f"{n} {COUNTED[verdict][n > 1]}" for verdict in COUNTED if (n := numbers[verdict])]
    differences = "1 difference" if len(claims) == 1 else f"{len(claims)} differences"
    finding = f"Of {differences} that the paper's numbers claim, {listing(counts)}."
    against = [f"{claim.left} against {claim.right}" for claim in claims if claim.verdict == "not agreed"]
    finding += f" The other sign: {listing(against)}." if against else ""
    return Picture(
        figure, f"Dot plot of differences in accuracy, the paper's and ours ({column.badge}). {finding}", finding
    )
