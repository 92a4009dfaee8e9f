"""The differences that the paper's numbers claim, and ours: does the sign hold?"""

from collections import Counter
from html import escape
from typing import Any

import plotly.graph_objects as go

from ..palette import Palette
from ..picture import Picture, axis, layout, listing, room, titled
from .rows import ENTRY, NUMBERS, ROW, TITLE, legend, listed

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
    figure = go.Figure()
    figure.add_scatter(
        name="paper",
        x=[claim.paper for claim in claims],
        y=names,
        mode="markers",
        marker={"symbol": "diamond-open", "size": 10, "color": palette.muted, "line": {"width": 2}},
        hovertemplate="%{y}, paper: %{x:+.1f} points<extra></extra>",
    )
    colours = {"agreed": palette.accent, "not agreed": palette.grouping, "undecided": palette.ink}
    titles = {
        "agreed": "ours, the paper's sign",
        "not agreed": "ours, the other sign",
        "undecided": "ours, undecided (interval contains 0)",
    }
    for verdict, (symbol, filled) in VERDICTS.items():
        of_verdict = [(name, claim) for name, claim in zip(names, claims, strict=True) if claim.verdict == verdict]
        figure.add_scatter(
            name=titles[verdict],
            x=[claim.ours for _, claim in of_verdict],
            y=[name for name, _ in of_verdict],
            mode="markers",
            error_x={
                "array": [claim.interval[1] - claim.ours for _, claim in of_verdict],
                "arrayminus": [claim.ours - claim.interval[0] for _, claim in of_verdict],
                "color": colours[verdict],
                "thickness": 1.5,
                "width": 4,
            },
            marker={"symbol": symbol, "size": 10, "color": colours[verdict], "line": {"width": 1 if filled else 2}},
            hovertemplate="%{y}, ours: %{x:+.2f} points<extra></extra>",
            showlegend=bool(of_verdict),
        )
    figure.add_vline(x=0, line={"color": palette.muted, "width": 1.5})
    entries = 1 + len({claim.verdict for claim in claims} & set(VERDICTS))
    bottom = NUMBERS + TITLE + entries * ENTRY + 8
    figure.update_layout(
        **layout(palette, height=12 + bottom + ROW * len(claims)),
        margin={"l": room(names), "r": 12, "t": 12, "b": bottom},
        legend=legend(palette),
    )
    figure.update_xaxes(title=titled("points of accuracy"), zeroline=False, **axis(palette))
    figure.update_yaxes(range=[len(claims) - 0.4, -0.6], **listed(names, palette))
    numbers = Counter(claim.verdict for claim in claims)
    counts = [f"{n} {COUNTED[verdict][n > 1]}" for verdict in COUNTED if (n := numbers[verdict])]
    differences = "1 difference" if len(claims) == 1 else f"{len(claims)} differences"
    finding = f"Of {differences} that the paper's numbers claim, {listing(counts)}."
    against = [f"{claim.left} against {claim.right}" for claim in claims if claim.verdict == "not agreed"]
    finding += f" The other sign: {listing(against)}." if against else ""
    return Picture(
        figure, f"Dot plot of differences in accuracy, the paper's and ours ({column.badge}). {finding}", finding
    )
