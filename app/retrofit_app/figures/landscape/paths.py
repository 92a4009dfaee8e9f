"""The straight lines between the networks that span a plane."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..drawing import Trace, axis, edge, lettering, line, panels, picture_of, scatter
from ..palette import Palette
from ..picture import Picture
from ..words import lettered, percent
from .scale import capped
from .words import loss_words, short


def loss_path(path: Any, palette: Palette) -> Picture:
    """Loss and accuracy on the straight line between two networks, with the barrier.

    Args:
        path: a `landscape.Path`.
    """
    t, first, last = list(path.t), lettered(path.first), lettered(path.last)
    loss = capped(np.array(path.loss))
    curves = (
        (loss, palette.ink, "circle", "loss %{y:.3f}", ""),
        (np.array(path.accuracy), palette.accent, "diamond", "accuracy %{y:.1f} %", "2"),
    )
    traces = [
        line([0, 1], [float(loss[0]), float(loss[-1])], palette.muted, 1.5, "dot"),
        *_barrier(path, loss, palette),
        *(
            scatter(
                t,
                values,
                "lines+markers",
                f"%{{x:.0%}} of the way to {last}: {words}",
                line=edge(colour, 2),
                marker={"size": 7, "symbol": symbol, "color": colour},
                xaxis=f"x{side}",
                yaxis=f"y{side}",
            )
            for values, colour, symbol, words, side in curves
        ),
    ]
    room = 0.15 * max(float(loss.max() - loss.min()), 1e-3)
    bare: dict[str, Any] = {"automargin": True, "nticks": 5}
    ends = {"tickvals": [0, 0.5, 1], "ticktext": [short(path.first), "half way", short(path.last)]}
    ends |= axis(f"weights, mixed from {first} to {last}")
    sides = [
        axis("loss", range=[float(loss.min()) - room, float(loss.max()) + 2.6 * room], **bare),
        axis("accuracy %", range=[-4, 104], tickvals=[0, 50, 100], **bare),
    ]
    rise = (
        f"the loss rises by up to {loss_words(path.barrier)} above the line between its ends, "
        f"{percent(100 * path.top).replace('.0', '')} of the way"
        if path.barrier >= 0.005
        else "there is no barrier: the loss never rises above the line between its ends"
    )
    return picture_of(
        palette,
        traces,
        360,
        "Lines of loss and accuracy between two networks",
        f"From {first} to {last}: {rise}. Loss {loss_words(path.loss[0])} at one end and {loss_words(path.loss[-1])} at the "
        f"other; {_accuracy_words(path.accuracy)}.",
        title=f"Loss and accuracy from {first} to {last}",
        margin=(4, 10, 10, 52),
        **panels([0.62, 0.38], 0.08, ends, sides, range=[-0.03, 1.03]),
    )


def _accuracy_words(accuracy: Sequence[float]) -> str:
    """Whether the accuracy falls below both ends between them."""
    ends = f"{percent(accuracy[0])} and {percent(accuracy[-1])} at the ends"
    lowest = min(accuracy)
    falls = lowest < min(accuracy[0], accuracy[-1])
    return f"accuracy falls to {percent(lowest)}, from {ends}" if falls else f"accuracy never falls below both, {ends}"


def _barrier(path: Any, loss: np.ndarray, palette: Palette) -> list[Trace]:
    """A line from the barrier's foot to its top, with its height in figures; nothing if there is none."""
    if path.barrier < 0.005:
        return []
    index = list(path.t).index(path.top)
    foot = (1 - path.top) * float(loss[0]) + path.top * float(loss[-1])
    above = float(loss.max()) + 0.25 * max(float(loss.max() - loss.min()), 1e-3)
    side = "left" if path.top > 0.7 else "right" if path.top < 0.3 else "center"
    return [
        line([path.top, path.top], [foot, float(loss[index])], palette.approximation, 3),
        lettering([path.top], [above], [f"<b>barrier {loss_words(path.barrier)}</b>"], textposition=f"middle {side}"),
    ]
