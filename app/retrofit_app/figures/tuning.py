"""Accuracy on held-out images after each epoch of a fine-tuning, beside the initial networks."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .drawing import axis, drawn, edge, lettering, line, mark, scatter
from .palette import Palette
from .picture import Picture
from .words import letter, lettered, listing, number, percent, signed

HEIGHT = 330  # px
#: Most epochs with marks; more would touch.
MARKED = 40
#: The least distance between lines with their own labels, as a share of the height.
APART = 0.07
#: Lines of networks with the same training, the fused one first.
DASHES = ("", "dash", "dot", "dashdot")


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


def equal_training(histories: Mapping[str, Sequence[Mapping[str, Any]]], epochs: int, palette: Palette) -> Picture:
    """Accuracy after every epoch of networks with the same training.

    Args:
        histories: name -> history as in `tuning_curve`; the fused network comes first.
        epochs: of the whole training.
    """
    seen = {name: [entry for entry in history if entry["accuracy"] is not None] for name, history in histories.items()}
    seen = {name: history for name, history in seen.items() if history}
    low = min((entry["accuracy"] for history in seen.values() for entry in history), default=0.0)
    low, high = max(low - 6, -2.0), 102.0
    traces = [
        scatter(
            [entry["epoch"] for entry in history],
            [entry["accuracy"] for entry in history],
            "lines",
            f"{name}, epoch %{{x}}: %{{y:.1f}} %",
            line=edge(palette.muted if index else palette.accent, 2 if index else 3, DASHES[index % len(DASHES)]),
        )
        for index, (name, history) in enumerate(seen.items())
    ]
    heights: list[float] = []  # of the labels, from above; if two would touch, the lower one moves down
    names = sorted(seen, key=lambda name: -seen[name][-1]["accuracy"])
    for name in names:
        heights.append(min(seen[name][-1]["accuracy"], heights[-1] - APART * (high - low) if heights else high))
    traces.append(
        lettering(
            [epochs] * len(names),
            heights,
            [f" {name.removeprefix('the ')}" for name in names],
            textposition="middle right",
            textfont={"color": [palette.accent if name == next(iter(seen)) else palette.muted for name in names]},
        )
    )
    ends = listing([f"{name} {percent(history[-1]['accuracy'])}" for name, history in seen.items()])
    return drawn(
        palette,
        traces,
        HEIGHT,
        "Lines of accuracy over epochs, one for each network",
        f"After the last epoch: {ends} of the held-out images.",
        margin=(4, 118, 10, 46),
        uirevision="equal-budget",
        xaxis=axis("epoch", range=[-0.02 * epochs, epochs]),
        yaxis=axis("accuracy %", range=[low, high], nticks=6, automargin=True),
    )


def loss_of_training(history: Sequence[Mapping[str, Any]]) -> str:
    """Why the training loss rose in epochs in which held-out accuracy rose, too; empty if it did not."""
    pairs = [pair for pair in zip(history, history[1:], strict=False) if pair[0]["loss"] is not None]
    rose = [
        (before, after)
        for before, after in pairs
        if after["loss"] > before["loss"] and (after["accuracy"] or 0.0) > (before["accuracy"] or 0.0)
    ]
    if not rose:
        return ""
    before, after = max(rose, key=lambda pair: pair[1]["loss"] - pair[0]["loss"])
    count = f"{len(rose)} of {len(pairs)} epochs" if len(rose) > 1 else "one epoch"
    losses = f"{number(before['loss'], 2)} to {number(after['loss'], 2)}"
    accuracies = f"{percent(before['accuracy'])} to {percent(after['accuracy'])}"
    return (
        f"In {count} the training loss rose though the held-out accuracy did, too (epoch {after['epoch']}: loss {losses}, "
        f"accuracy {accuracies}). They measure different things. The loss is a mean over the epoch's training images, which "
        "augmentation draws anew, with smoothed labels, while the weights still move. The accuracy is that of the network after "
        "the epoch, on images as they are."
    )


def loss_of_images(
    right_before: NDArray[np.bool_],
    before: NDArray[np.floating],
    right_after: NDArray[np.bool_],
    after: NDArray[np.floating],
) -> str:
    """Which images raise the mean loss, the largest part first.

    Args:
        right_before, right_after: (n,) which images are right.
        before, after: (n,) each image's loss.
    """
    kinds = {
        "stay right": right_before & right_after,
        "become right": ~right_before & right_after,
        "become wrong": right_before & ~right_after,
        "stay wrong": ~right_before & ~right_after,
    }
    parts = []
    for what, which in kinds.items():
        if which.any():
            change = float((after[which] - before[which]).sum()) / len(before)
            means = f"{number(float(before[which].mean()), 2)} to {number(float(after[which].mean()), 2)}"
            parts.append(
                (change, f"the {int(which.sum()):,} that {what} from {means} ({signed(change, 3)} of the mean)")
            )
    words = listing([text for _, text in sorted(parts, key=lambda part: -part[0])])
    return f"Image by image, the loss goes for {words}."


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
