"""Networks while they are trained: losses and accuracies, with the end of the training in view; a fine-tuning beside the
initial networks."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from .drawing import Trace, axis, edge, lettering, line, mark, panels, picture_of, scatter
from .palette import Palette
from .picture import Picture
from .placing import shared_places
from .words import letter, lettered, listing, number, percent

HEIGHT = 330  # px
#: Most epochs with marks; more would touch.
MARKED = 40
#: The least distance between lines with their own labels, as a share of the height.
APART = 0.07


def growing_lines(
    losses: Mapping[str, Sequence[float]],
    accuracies: Mapping[str, Sequence[float | None]],
    epochs: int,
    colours: Mapping[str, str],
    palette: Palette,
) -> Picture:
    """A line for each network: accuracy on held-out images above, if it is measured, and loss below.

    Args:
        losses: name -> loss after each epoch.
        accuracies: name -> accuracy after each epoch, in %, or None.
        epochs: of the whole training, where the axis ends.
        colours: name -> colour.
    """
    known = {name: [value or 0.0 for value in values] for name, values in accuracies.items() if any(values)}
    largest = max((value for values in losses.values() for value in values), default=1.0)
    traces = []
    for name, values in losses.items():
        traces += _grown(name, values, "2" if known else "", colours[name], "loss %{y:.4g}")
    for name, values in known.items():
        traces += _grown(name, values, "", colours[name], "%{y:.1f} %")
    loss = axis("loss", range=[0, 1.12 * largest], nticks=4, automargin=True)
    sides = [axis("accuracy %", range=[0, 109], tickvals=[0, 50, 100], automargin=True), loss] if known else [loss]
    reach = {"range": [0.4, max(epochs, 1) + 0.6 + 0.05 * epochs]}
    words = [
        f"{name} {percent(known[name][-1]) if name in known else f'loss {number(values[-1], 3)}'}"
        for name, values in losses.items()
        if values
    ]
    done = max(map(len, losses.values()), default=0)
    return picture_of(
        palette,
        traces,
        250 if known else 170,
        f"Lines of {'accuracy and loss' if known else 'loss'} over epochs",
        f"{done} of {epochs} epochs: {listing(words)}." if words else "No epoch is finished yet.",
        margin=(4, 12, 8, 46),
        **panels([0.6, 0.4] if known else [1.0], 0.08, axis("epoch", nticks=6), sides, **reach),
    )


def _grown(name: str, values: Sequence[float], panel: str, colour: str, tip: str) -> list[Trace]:
    """A line, and its name at its last epoch; nothing before the first."""
    where = {"xaxis": f"x{panel}", "yaxis": f"y{panel}"}
    epochs = list(range(1, len(values) + 1))
    end = mark("circle", 9, colour, width=0)
    words = {"text": [f"<b>{name}</b>"], "textposition": "middle right", "textfont": {"color": colour}}
    return (
        [
            line(epochs, list(values), colour, 2.5, tip=f"{name}, epoch %{{x}}: {tip}", **where),
            scatter(epochs[-1:], list(values[-1:]), "markers+text", marker=end, cliponaxis=False, **words, **where),
        ]
        if values
        else []
    )


def tuning_curve(
    history: Sequence[Mapping[str, Any]], networks: Mapping[str, Mapping[str, Any]], epochs: int, palette: Palette
) -> Picture:
    """Each epoch's accuracy so far, with parents, ensemble and fused network as lines.

    Args:
        history: epoch, accuracy and best, starting with epoch 0 (the fused network).
        networks: accuracies on the same images: "parent 0" and on, "ensemble", "fused".
        epochs: of the whole fine-tuning.
    """
    known = {name: float(network["accuracy"]) for name, network in networks.items()}
    seen = [entry for entry in history if entry["accuracy"] is not None]
    low = min([entry["accuracy"] for entry in seen] + list(known.values()), default=0.0)
    low, high = max(low - max(0.06 * (100 - low), 1.0), -2.0), 100 + 0.05 * (100 - low) + 0.2
    labels = [
        (fmean(known[name] for name in names), ", ".join(_short(names)))
        for names in shared_places(known, APART * (high - low))
    ]
    looks = {"fused": (palette.accent, 2, "dot"), "ensemble": (palette.muted, 1.5, "dash")}
    traces = []
    for name, value in known.items():
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
    return picture_of(
        palette,
        traces,
        HEIGHT,
        "Line of accuracy over epochs, with other networks as lines",
        _finding(seen, known, epochs),
        margin=(4, 104, 10, 46),
        uirevision="tuning",
        xaxis=axis("epoch", range=[-0.02 * epochs, epochs]),
        yaxis=axis("accuracy %", range=[low, high], nticks=6, automargin=True),
    )


def _best(seen: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((entry for entry in seen if entry["epoch"] == seen[-1]["best"]), None) if seen else None


def _who(name: str) -> str:
    """A line's network."""
    return "the fused network" if name == "fused" else lettered(name)


def _short(names: Sequence[str]) -> list[str]:
    """Networks' short names: "A, B" or "A to F", "ensemble", "before"."""
    parents = [int(name.removeprefix("parent ")) for name in sorted(names) if name.startswith("parent ")]
    letters = [letter(index) for index in parents]
    first = [f"{letters[0]} to {letters[-1]}"] if len(letters) > 2 else letters
    return [*first, *({"fused": "before"}.get(name, name) for name in names if not name.startswith("parent "))]


def _finding(seen: Sequence[Mapping[str, Any]], known: Mapping[str, float], epochs: int) -> str:
    others = listing([f"{_who(name)} {percent(value)}" for name, value in known.items()])
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
