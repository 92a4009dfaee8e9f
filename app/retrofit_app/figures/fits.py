"""How a level was fitted: the loss over epochs, and what its neurons are tied to."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .drawing import axis, line, log_ticks, picture_of, scatter
from .palette import Palette
from .picture import Picture
from .words import escaped, percent


def loss_curve(curve: Sequence[dict[str, Any]], palette: Palette) -> Picture:
    """A gradient fit's loss on its training rows and on those set aside; their best epoch is kept.

    Args:
        curve: epoch, loss and validation, starting with epoch 0 (before any step).
    """
    epochs = [row["epoch"] for row in curve]
    best = min(range(len(curve)), key=lambda index: float(curve[index]["validation"]))
    trained, aside = ([max(float(row[key]), 1e-12) for row in curve] for key in ("loss", "validation"))
    tip = "epoch %{x}: %{y:.4g}<extra>%{fullData.name}</extra>"
    low, high = (float(np.log10(end)) for end in (min(*trained, *aside), max(*trained, *aside)))
    return picture_of(
        palette,
        [
            line(epochs, trained, palette.ink, tip=tip, name="training rows"),
            line(epochs, aside, palette.accent, dash="dash", tip=tip, name="rows set aside"),
            scatter(
                [epochs[best]],
                [aside[best]],
                "markers",
                name="kept",
                marker={"symbol": "circle-open", "size": 13, "color": palette.accent, "line": {"width": 2.5}},
            ),
        ],
        320,
        "Lines of the fit's loss over epochs, logarithmic",
        f"{epochs[-1]} epochs of gradient descent: epoch {epochs[best]} is kept, where the loss on the rows set aside "
        f"is {float(curve[best]['validation']):.3g} ({float(curve[0]['validation']):.3g} before the fit).",
        xaxis=axis("epoch"),
        yaxis=axis("loss", type="log", automargin=True, **log_ticks(low - 0.1, high + 0.1)),
    )


def group_words(level: Any) -> str:
    """In Markdown: why a level's neurons are not all grouped together; empty if they are.

    Args:
        level: a `LevelReport`.
    """
    if "heads" in level.grouping:
        return (
            "This level makes queries, keys or values. Its heads are grouped by what they attend to. No neuron within a head has "
            "a counterpart, because any basis gives the same attention: a target mixes all neurons of its heads, each neuron is "
            "shown in the group in which it weighs most, and the errors say how much of it the whole fused head recovers."
        )
    if "parts" in level.grouping:
        return (
            f"Its neurons are in the {level.grouping['parts']} parts of a grouped convolution. Retrofit first "
            "matches whole parts of the parents by what their neurons span, then groups neurons within matched "
            "parts."
        )
    if "kinds" in level.grouping:
        return f"Its neurons are of {level.grouping['kinds']} kinds that cannot be exchanged, so each kind is grouped on its own."
    if level.stream and level.stream != level.name:
        return f"It writes to the residual stream that begins at **{escaped(level.stream)}**, and shares its grouping."
    return ""


def stream_words(level: Any) -> str:
    """In Markdown: that a residual stream begins at a level, or what its layers corrected there; empty for other levels.

    Args:
        level: a `LevelReport`.
    """
    if level.stream and level.stream == level.name:
        return "A residual stream begins here: all levels that write to it share this grouping."
    if not level.stream or np.isnan(level.missing_error):
        return ""
    before, after = (percent(100 * level.share(error)) for error in ("missing", "approximation"))
    return (
        f"Its layers are fitted to what the stream still lacks of its target: {before} of the neurons' energy before them, "
        f"{after} after them."
    )
