"""Accuracy on held-out images after each epoch of a fine-tuning, beside the initial networks."""

from collections.abc import Mapping, Sequence
from typing import Any

from .drawing import axis, drawn, edge, lettering, line, mark, scatter
from .palette import Palette
from .picture import Picture
from .words import letter, lettered, listing, percent

HEIGHT = 330  # px
#: Most epochs with marks; more would touch.
MARKED = 40
#: The least distance between lines with their own labels, as a share of the height.
APART = 0.07


def tuning_curve(
    history: Sequence[Mapping[str, Any]], networks: Mapping[str, Mapping[str, Any]], epochs: int, palette: Palette
) -> Picture:
    """Each epoch's accuracy so far, with parents, ensemble and fused network as lines.

    Args:
        history: epoch, accuracy and best, starting with epoch 0 (the fused network).
        networks: accuracies on the same images: "parent 0" and on, "ensemble", "fused".
        epochs: of the whole fine-tuning.
    """
    seen = [entry for entry in history if entry["accuracy"] is not None]
    low = min([entry["accuracy"] for entry in seen] + [value for _, value in _lines(networks)], default=0.0)
    low, high = max(low - max(0.06 * (100 - low), 1.0), -2.0), 100 + 0.05 * (100 - low) + 0.2
    labels = _labels(networks, APART * (high - low))
    looks = {"fused": (palette.accent, 2, "dot"), "ensemble": (palette.muted, 1.5, "dash")}
    traces = []
    for name, value in _lines(networks):
        colour, width, dash = looks.get(name, (palette.muted, 1.5, "longdashdot"))
        traces.append(line([0, epochs], [value, value], colour, width, dash, f"{_who(name)}: {percent(value)}"))
    traces += [
        lettering(
            [epochs] * len(labels),
            [value for value, _ in labels],
            [f" {words}" for _, words in labels],
            textposition="middle right",
            textfont={"color": palette.muted},
        ),
        scatter(
            [entry["epoch"] for entry in seen],
            [entry["accuracy"] for entry in seen],
            "lines+markers" if len(seen) <= MARKED else "lines",
            "epoch %{x}: %{y:.1f} %",
            line=edge(palette.ink, 2),
            marker={"size": 6, "color": palette.ink},
        ),
    ]
    if (best := _best(seen)) is not None:
        star = mark("star", 15, palette.accent, palette.ink, 1.5)
        tip = "best so far: epoch %{x}, %{y:.1f} %"
        traces.append(scatter([best["epoch"]], [best["accuracy"]], "markers", tip, marker=star))
    return drawn(
        palette,
        traces,
        HEIGHT,
        "Line of accuracy over epochs, with other networks as lines",
        _finding(seen, networks, epochs),
        margin=(4, 104, 10, 46),
        uirevision="tuning",
        xaxis=axis("epoch", range=[-0.02 * epochs, epochs]),
        yaxis=axis("accuracy %", range=[low, high], nticks=6, automargin=True),
    )


def _best(seen: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((entry for entry in seen if entry["epoch"] == seen[-1]["best"]), None) if seen else None


def _lines(networks: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, float]]:
    return [(name, float(network["accuracy"])) for name, network in networks.items()]


def _who(name: str) -> str:
    """A line's network."""
    return "the fused network" if name == "fused" else lettered(name)


def _labels(networks: Mapping[str, Mapping[str, Any]], apart: float) -> list[tuple[float, str]]:
    """Labels' heights and texts; lines less than `apart` per cent apart share one."""
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
    """Networks' short names: "A, B" or "A to F", "ensemble", "before"."""
    parents = [int(name.removeprefix("parent ")) for name in sorted(names) if name.startswith("parent ")]
    letters = [letter(index) for index in parents]
    first = [f"{letters[0]} to {letters[-1]}"] if len(letters) > 2 else letters
    return [*first, *({"fused": "before"}.get(name, name) for name in names if not name.startswith("parent "))]


def _finding(seen: Sequence[Mapping[str, Any]], networks: Mapping[str, Mapping[str, Any]], epochs: int) -> str:
    others = listing([f"{_who(name)} {percent(value)}" for name, value in _lines(networks)])
    best = _best(seen)
    if best is None:
        return f"No epoch is finished yet. On the held-out images: {others}."
    done = seen[-1]["epoch"]
    count = f"All {epochs} epochs are done" if done == epochs else f"{done} of {epochs} epochs are done"
    best_words = (
        f"the best is epoch {best['epoch']} with {percent(best['accuracy'])}"
        if best["epoch"]
        else f"none is better than the start, {percent(best['accuracy'])}"
    )
    return f"{count}; {best_words} of the held-out images. Before, on the same images: {others}."
