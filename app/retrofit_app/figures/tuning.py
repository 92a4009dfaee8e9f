"""Accuracy on held-out images after each epoch of a fine-tuning, beside the networks that it began with."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from .palette import TEXT, Palette
from .picture import Picture, axis, layout, letter, listing, percent, titled

HEIGHT = 330  # px
#: Marks of single epochs up to so many; more would touch each other.
MARKED = 40
#: Of the height: how far apart lines have to be to have a label each.
APART = 0.07


def tuning_curve(
    history: Sequence[Mapping[str, Any]], networks: Mapping[str, Mapping[str, Any]], epochs: int, palette: Palette
) -> Picture:
    """Accuracy of every epoch so far, and parents, ensemble and fused network as lines.

    Args:
        history: epoch, accuracy and best, from epoch 0 (the fused network) on.
        networks: accuracies on the same images: "parent 0" and on, "ensemble", "fused".
        epochs: of the whole fine-tuning.
    """
    figure = go.Figure()
    seen = [entry for entry in history if entry["accuracy"] is not None]
    low = min([entry["accuracy"] for entry in seen] + [value for _, value in _lines(networks)], default=0.0)
    low, high = max(low - max(0.06 * (100 - low), 1.0), -2.0), 100 + 0.05 * (100 - low) + 0.2
    labels = _labels(networks, APART * (high - low))
    for name, value in _lines(networks):
        figure.add_scatter(
            x=[0, epochs],
            y=[value, value],
            mode="lines",
            line={
                "color": palette.accent if name == "fused" else palette.muted,
                "width": 2 if name == "fused" else 1.5,
                "dash": "dot" if name == "fused" else "dash" if name == "ensemble" else "longdashdot",
            },
            hovertemplate=f"{_who(name)}: {percent(value)}<extra></extra>",
        )
    figure.add_scatter(
        x=[epochs] * len(labels),
        y=[value for value, _ in labels],
        text=[f" {words}" for _, words in labels],
        mode="text",
        textposition="middle right",
        textfont={"color": palette.muted, "size": TEXT},
        cliponaxis=False,
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=[entry["epoch"] for entry in seen],
        y=[entry["accuracy"] for entry in seen],
        mode="lines+markers" if len(seen) <= MARKED else "lines",
        line={"color": palette.ink, "width": 2},
        marker={"size": 6, "color": palette.ink},
        hovertemplate="epoch %{x}: %{y:.1f} %<extra></extra>",
    )
    best = _best(seen)
    if best is not None:
        figure.add_scatter(
            x=[best["epoch"]],
            y=[best["accuracy"]],
            mode="markers",
            marker={
                "symbol": "star",
                "size": 15,
                "color": palette.accent,
                "line": {"width": 1.5, "color": palette.ink},
            },
            hovertemplate="best so far: epoch %{x}, %{y:.1f} %<extra></extra>",
        )
    figure.update_layout(
        **layout(palette, HEIGHT), margin={"l": 4, "r": 104, "t": 10, "b": 46}, showlegend=False, uirevision="tuning"
    )
    figure.update_xaxes(title=titled("epoch"), range=[-0.02 * epochs, epochs], zeroline=False, **axis(palette))
    figure.update_yaxes(
        title=titled("accuracy %"),
        range=[low, high],
        nticks=6,
        zeroline=False,
        automargin=True,
        **axis(palette),
    )
    finding = _finding(seen, networks, epochs)
    return Picture(figure, f"Line of accuracy over epochs, with other networks as lines. {finding}", finding)


def _best(seen: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((entry for entry in seen if entry["epoch"] == seen[-1]["best"]), None) if seen else None


def _lines(networks: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, float]]:
    return [(name, float(network["accuracy"])) for name, network in networks.items()]


def _who(name: str) -> str:
    """A line's network."""
    if name.startswith("parent "):
        return f"network {letter(int(name.removeprefix('parent ')))}"
    return {"fused": "the fused network"}.get(name, name)


def _labels(networks: Mapping[str, Mapping[str, Any]], apart: float) -> list[tuple[float, str]]:
    """Where a label stands and what it says; lines that lie less than this many per cent apart share one."""
    groups: list[list[tuple[str, float]]] = []
    for name, value in sorted(_lines(networks), key=lambda line: -line[1]):
        if groups and groups[-1][0][1] - value < apart:
            groups[-1].append((name, value))
        else:
            groups.append([(name, value)])
    return [
        (sum(value for _, value in group) / len(group), ", ".join(_short([name for name, _ in group])))
        for group in groups
    ]


def _short(names: Sequence[str]) -> list[str]:
    """Networks in few letters: "A, B" or "A to F", "ensemble", "before"."""
    parents = [int(name.removeprefix("parent ")) for name in sorted(names) if name.startswith("parent ")]
    letters = [letter(index) for index in parents]
    first = [f"{letters[0]} to {letters[-1]}"] if len(letters) > 2 else letters
    return [*first, *({"fused": "before"}.get(name, name) for name in names if not name.startswith("parent "))]


def _finding(seen: Sequence[Mapping[str, Any]], networks: Mapping[str, Mapping[str, Any]], epochs: int) -> str:
    others = listing([f"{_who(name)} {percent(value)}" for name, value in _lines(networks)])
    best = _best(seen)
    if best is None:
        return f"No epoch is measured yet. On the held-out images: {others}."
    done = seen[-1]["epoch"]
    count = f"All {epochs} epochs are done" if done == epochs else f"{done} of {epochs} epochs are done"
    kept = (
        f"the best is epoch {best['epoch']} with {percent(best['accuracy'])}"
        if best["epoch"]
        else f"none is better than the start, {percent(best['accuracy'])}"
    )
    return f"{count}; {kept} of the held-out images. Before, on the same images: {others}."
