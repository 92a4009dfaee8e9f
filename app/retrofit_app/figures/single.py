"""Numbers of single neurons: importance; one group with its target, and one fused neuron."""

import numpy as np

from .drawing import axis, bars, edge, line, mark, picture_of, scatter
from .neurons import Neurons
from .palette import SHAPES, Palette
from .picture import Picture
from .words import network, number, percent

#: A neuron below this share of the mean counts as unused.
FAINT = 0.01
#: Octaves of the mean, named by their lower ends, because ranges do not fit side by side. The first holds all below.
OCTAVES = {"≈0": 0.0, "<⅛": FAINT, "⅛": 0.125, "¼": 0.25, "½": 0.5, "1": 1, "2": 2, "4": 4, ">8": 8}
HATCH = {"fillmode": "overlay", "size": 6, "solidity": 0.3}
HATCHES = ("", "/", "x", "-", ".", "+")
#: Most members (the most important) and samples that are drawn.
MOST, SAMPLES = 6, 60


def score_histogram(grouped: Neurons, score: str, palette: Palette) -> Picture:
    """A score's distribution over neurons, in octaves of its mean, so that faint and strong ones show; networks side by side."""
    weights = grouped.weights
    if float(np.ptp(weights)) <= 1e-9 * float(weights.max(initial=1)):
        finding = f"{score} importance: every neuron counts the same, 1 × the mean."
    else:
        ranked = np.sort(weights)[::-1]
        half = int(np.searchsorted(np.cumsum(ranked), 0.5 * ranked.sum())) + 1
        faint = int((weights < FAINT).sum())
        idle = f"{faint} count{'s' if faint == 1 else ''}" if faint else "none counts"
        finding = (
            f"{score} importance: half of it lies on {half} of {len(weights)} neurons; {idle} for less than {FAINT:g} × the "
            f"mean; the most important one has {number(float(ranked[0]))} × the mean."
        )
    place = np.clip(np.searchsorted(list(OCTAVES.values()), weights, side="right") - 1, 0, None)
    traces = [
        bars(
            list(OCTAVES),
            np.bincount(place[grouped.parents == parent], minlength=len(OCTAVES)),
            "%{x}: %{y} neurons<extra>%{fullData.name}</extra>",
            name=network(parent),
            marker={
                "color": palette.parent(parent),
                "line": edge(palette.outline),
                "pattern": {**HATCH, "shape": HATCHES[parent % len(HATCHES)], "fgcolor": palette.outline},
            },
        )
        for parent in range(int(grouped.parents.max()) + 1)
    ]
    return picture_of(
        palette,
        traces,
        280,
        "Histogram of importance in multiples of its mean, by network",
        finding,
        margin=(4, 4, 10, 48),
        barmode="group",
        bargap=0.12,
        xaxis=axis("importance ÷ mean (1: from 1 to 2)", type="category", showgrid=False, tickangle=0),
        yaxis=axis("neurons", automargin=True),
    )


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
        f"In this group the line leaves out {percent(100 * min(left / spread, 9.99), 0)} of the members' variance, weighted by "
        "importance; the level's grouping error counts all groups."
        if spread > 0
        else "The members do not change."
    )
    finding = kept if len(rows) > 1 else "One member alone is its own target."
    more = f" {MOST} of {len(rows)} members are drawn, the most important first." if len(rows) > MOST else ""
    names = [grouped.names[row] for row in rows[ranked]]
    return picture_of(
        palette,
        traces,
        360,
        f"Outputs of {', '.join(names)} to {len(shown)} samples, and their weighted mean, which is the target of fused neuron "
        f"{cluster}",
        finding + more,
        xaxis=axis("samples, in the order of the target", showgrid=False, showticklabels=False),
        yaxis=axis("output", automargin=True),
    )


def fit_scatter(targets: np.ndarray, outputs: np.ndarray, name: str, palette: Palette) -> Picture:
    """One fused neuron: its target against the fitted level's output.

    Args:
        targets, outputs: (r,) over the same rows.
    """
    low, high = float(np.min([targets, outputs])), float(np.max([targets, outputs]))
    beyond, r2 = 0.06 * max(high - low, 1e-9), explained(targets, outputs)
    span = [low - beyond, high + beyond]
    fit = "its target never changes, so there is no R²" if r2 is None else f"R² {number(r2, 2)}"
    return picture_of(
        palette,
        [
            line(span, span, palette.muted, 1, "dot"),
            scatter(
                targets,
                outputs,
                "markers",
                "target %{x:.3g}<br>output %{y:.3g}",
                marker=mark("circle", 7, palette.accent, palette.outline),
            ),
        ],
        320,
        "Scatter plot",
        f"{name}, output against target on {len(targets)} sampled rows: {fit}. The dotted line is a perfect fit.",
        xaxis=axis("target", range=span),
        yaxis=axis("output of the fused neuron", range=span, automargin=True),
    )


def explained(targets: np.ndarray, outputs: np.ndarray) -> float | None:
    """R² of outputs as predictions of targets; None for a constant target."""
    total = float(((targets - targets.mean()) ** 2).sum())
    return 1 - float(((targets - outputs) ** 2).sum()) / total if total > 0 else None
