"""Numbers of single neurons: activity, importance, what is kept of them, and one neuron in detail."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from .drawing import ABOVE, axis, bars, diagonal, edge, hatched, plot, scatter
from .neurons import Neurons
from .palette import Palette
from .picture import Picture, letter, listing, number, percent

#: Below this share of the mean a neuron counts as not used.
FAINT = 0.01


def _by_parent(
    values: np.ndarray, parents: np.ndarray, edges: np.ndarray, names: Sequence[str], palette: Palette, axis_title: str
) -> go.Figure:
    """Neurons per bin, bars of the parents side by side; the first bin holds everything below it."""
    traces = []
    hatches = ("", "/", "x", "-", ".", "+")
    for parent in range(int(parents.max()) + 1):
        of_parent = values[parents == parent]
        bins = np.clip(np.searchsorted(edges, of_parent, side="right") - 1, 0, len(edges) - 2)
        traces.append(
            bars(
                list(names),
                np.bincount(bins, minlength=len(edges) - 1).tolist(),
                name=f"network {letter(parent)}",
                marker=hatched(palette, palette.parent(parent), hatches[parent % len(hatches)]),
                hovertemplate="%{x}: %{y} neurons<extra>%{fullData.name}</extra>",
            )
        )
    return plot(
        palette,
        traces,
        280,
        (4, 4, 34, 48),
        barmode="group",
        bargap=0.12,
        legend=ABOVE,
        xaxis=axis(axis_title, type="category", showgrid=False, tickangle=0),
        yaxis=axis("neurons", automargin=True),
    )


def multiples(values: np.ndarray, parents: np.ndarray, palette: Palette, what: str, finding: str) -> Picture:
    """Values in multiples of their mean, in octaves: a histogram that shows both the faint and the strong."""
    edges = np.array([0.0, FAINT, 0.125, 0.25, 0.5, 1, 2, 4, 8, np.inf])
    names = [
        "≈0",
        "<⅛",
        "⅛",
        "¼",
        "½",
        "1",
        "2",
        "4",
        ">8",
    ]  # each bin by its lower end: ranges do not fit side by side
    figure = _by_parent(values, parents, edges, names, palette, f"{what} ÷ mean (1: from 1 to 2)")
    return Picture(figure, f"Histogram of {what} in multiples of its mean, by network. {finding}", finding)


def score_histogram(grouped: Neurons, score: str, palette: Palette) -> Picture:
    """How a score is spread over the neurons."""
    weights = grouped.weights
    if float(np.ptp(weights)) <= 1e-9 * float(weights.max(initial=1)):
        finding = f"{score} importance: every neuron counts the same, 1 × the mean."
    else:
        ranked = np.sort(weights)[::-1]
        half = int(np.searchsorted(np.cumsum(ranked), 0.5 * ranked.sum())) + 1
        faint = int((weights < FAINT).sum())
        idle = f"{faint} carry" if faint else "none carries"
        finding = (
            f"{score} importance: {half} of {len(weights)} neurons carry half of it; {idle} next to nothing; "
            f"the strongest counts {number(float(ranked[0]))} × the mean."
        )
    return multiples(weights, grouped.parents, palette, "importance", finding)


def activity_histogram(energy: np.ndarray, parents: np.ndarray, palette: Palette) -> Picture:
    """How strongly neurons respond to the fusion samples.

    Args:
        energy: (m,) sum of squares of each neuron's outputs.
    """
    relative = energy / max(float(energy.mean()), 1e-300)
    dead = int((relative < 1e-6).sum())
    faint = int((relative < FAINT).sum())
    who = f"{faint} of {len(energy)} neurons hardly respond" if faint else f"All {len(energy)} neurons respond"
    finding = (
        f"{who} to the fusion samples{f', {dead} of them not at all' if dead else ''}; the strongest has "
        f"{number(float(relative.max()))} × the mean energy."
    )
    return multiples(relative, parents, palette, "energy", finding)


def r2_histogram(kept: np.ndarray, parents: np.ndarray, palette: Palette) -> Picture:
    """What each parent's neurons keep: share of their variance that the fused neuron explains."""
    edges = np.append(np.arange(10) / 10, 1.0001)
    names = ["0", *(f".{low}" for low in range(1, 10))]
    figure = _by_parent(kept, parents, edges, names, palette, "R² from the fused neuron (.9: from .9 to 1)")
    means = [float(kept[parents == parent].mean()) for parent in range(int(parents.max()) + 1)]
    words = listing([f"network {letter(parent)} {percent(100 * mean)}" for parent, mean in enumerate(means)])
    lost = int((kept < 0.1).sum())
    finding = (
        f"On average this much of a neuron's variance is kept: {words}. "
        f"{f'{lost} of {len(kept)} neurons keep' if lost else 'No neuron keeps'} less than a tenth."
    )
    return Picture(figure, f"Histogram of R² by network. {finding}", finding)


def fit_scatter(targets: np.ndarray, outputs: np.ndarray, name: str, palette: Palette) -> Picture:
    """One fused neuron: what it should put out (its target) against what the fitted level puts out.

    Args:
        targets, outputs: (r,) over the same rows.
    """
    low, high = float(min(targets.min(), outputs.min())), float(max(targets.max(), outputs.max()))
    pad = max(high - low, 1e-9) * 0.06
    span = [low - pad, high + pad]
    marks = scatter(
        targets.tolist(),
        outputs.tolist(),
        "markers",
        marker={"size": 7, "color": palette.accent, "line": edge(palette.outline)},
        hovertemplate="target %{x:.3g}<br>output %{y:.3g}<extra></extra>",
    )
    figure = plot(
        palette,
        [diagonal(span, palette), marks],
        320,
        (4, 8, 10, 46),
        xaxis=axis("target: the cluster's weighted mean", range=span),
        yaxis=axis("output of the fused neuron", range=span, automargin=True),
    )
    r2 = explained(targets, outputs)
    said = "its target never changes, so there is no R²" if r2 is None else f"R² {number(r2, 2)}"
    finding = f"{name}, target against output on {len(targets)} sampled rows: {said}; the dotted line is a perfect fit."
    return Picture(figure, f"Scatter plot. {finding}", finding)


def explained(targets: np.ndarray, outputs: np.ndarray) -> float | None:
    """R² of outputs as predictions of targets, at most 1; None for a constant target."""
    total = float(((targets - targets.mean()) ** 2).sum())
    return 1 - float(((targets - outputs) ** 2).sum()) / total if total > 0 else None


def members_words(grouped: Neurons, cluster: int) -> str:
    """Who is in a cluster."""
    rows = np.flatnonzero(grouped.labels == cluster)
    shares = listing(
        [
            f"{int((grouped.parents[rows] == parent).sum())} of network {letter(parent)}"
            for parent in range(len(grouped.widths))
            if (grouped.parents[rows] == parent).any()
        ]
    )
    if not len(rows):
        return f"Cluster {cluster} is empty."
    return f"Cluster {cluster} has {len(rows)} member{'s' if len(rows) > 1 else ''}: {shares}."
