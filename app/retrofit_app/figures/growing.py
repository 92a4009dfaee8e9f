"""Losses and accuracies while networks are trained, with the end of the training in view."""

from collections.abc import Mapping, Sequence

from .drawing import Trace, axis, drawn, line, mark, panels, scatter
from .palette import Palette
from .picture import Picture
from .words import listing, number, percent


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
        traces += _line(name, values, "2" if known else "", colours[name], "loss %{y:.4g}")
    for name, values in known.items():
        traces += _line(name, values, "", colours[name], "%{y:.1f} %")
    loss = axis("loss", range=[0, 1.12 * largest], nticks=4, automargin=True)
    sides = [axis("accuracy %", range=[0, 109], tickvals=[0, 50, 100], automargin=True), loss] if known else [loss]
    reach = {"range": [0.4, max(epochs, 1) + 0.6 + 0.05 * epochs]}
    words = [
        f"{name} {percent(known[name][-1]) if name in known else f'loss {number(values[-1], 3)}'}"
        for name, values in losses.items()
        if values
    ]
    done = max(map(len, losses.values()), default=0)
    return drawn(
        palette,
        traces,
        250 if known else 170,
        f"Lines of {'accuracy and loss' if known else 'loss'} over epochs",
        f"{done} of {epochs} epochs: {listing(words)}." if words else "No epoch is finished yet.",
        margin=(4, 12, 8, 46),
        **panels([0.6, 0.4] if known else [1.0], 0.08, axis("epoch", nticks=6), sides, **reach),
    )


def _line(name: str, values: Sequence[float], panel: str, colour: str, tip: str) -> list[Trace]:
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
