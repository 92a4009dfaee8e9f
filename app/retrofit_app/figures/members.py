"""A group's members and its target: their outputs on the same samples, and the weighted mean."""

import numpy as np

from .drawing import axis, drawn, line, mark, scatter
from .neurons import Neurons
from .palette import SHAPES, Palette
from .picture import Picture
from .words import percent

#: Most members (the most important) and samples that are drawn.
MOST, SAMPLES = 6, 60


def members_and_target(grouped: Neurons, cluster: int, outputs: np.ndarray, palette: Palette) -> Picture:
    """The outputs of a group's members, sample by sample, with their importance-weighted mean as a line.

    Args:
        outputs: (n, m) of all the level's neurons on the same samples.
    """
    rows = np.flatnonzero(grouped.labels == cluster)
    own, weights = outputs[:, rows], grouped.weights[rows]
    weights = weights if weights.sum() > 0 else np.ones(len(rows))
    target = np.average(own, axis=1, weights=weights)
    shown = np.argsort(target)[np.unique(np.linspace(0, len(target) - 1, SAMPLES).round().astype(int))]
    x = list(range(1, len(shown) + 1))
    ranked: list[int] = np.argsort(-weights, kind="stable")[:MOST].tolist()
    traces = [
        scatter(
            x,
            own[shown, member],
            "markers",
            f"{grouped.names[rows[member]]}: %{{y:.3g}}",
            name=f"{grouped.names[rows[member]]}, {percent(100 * weights[member] / weights.sum(), 0)}",
            marker=mark(SHAPES[parent % len(SHAPES)], 7, palette.parent(parent), palette.outline),
        )
        for member, parent in zip(ranked, grouped.parents[rows[ranked]].tolist(), strict=True)
    ]
    traces.append(line(x, target[shown], palette.accent, 3, tip="target: %{y:.3g}", name="target"))
    spread = float((weights * ((own - own.mean(0)) ** 2).sum(0)).sum())
    left = float((weights * ((own - target[:, None]) ** 2).sum(0)).sum())
    kept = (
        f"The line leaves out {percent(100 * min(left / spread, 9.99), 0)} of the members' own variance, weighted by importance"
        if spread > 0
        else "The members do not change"
    )
    several = len(rows) > 1
    finding = f"{kept}: that is the grouping error here." if several else "One member alone is its own target."
    more = f" {MOST} of {len(rows)} members are drawn, the most important first." if len(rows) > MOST else ""
    names = [grouped.names[row] for row in rows[ranked]]
    return drawn(
        palette,
        traces,
        360,
        f"Outputs of {', '.join(names)} to {len(shown)} samples, and their weighted mean, which is the target of fused neuron "
        f"{cluster}",
        finding + more,
        xaxis=axis("samples, in the order of the target", showgrid=False, showticklabels=False),
        yaxis=axis("output", automargin=True),
    )
