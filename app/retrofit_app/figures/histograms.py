"""Histograms that a record keeps as counts and edges."""

from collections.abc import Mapping, Sequence

import numpy as np

from .drawing import axis, bars, edge, note, panels, picture_of, up_paper
from .palette import Palette
from .picture import Picture
from .words import listing, percent, title

#: A neuron below this share of the uniform score hardly counts.
FAINT = 0.1
PANEL = 210  # px


def kept_histograms(histograms: Mapping[str, Mapping[str, Sequence[float]]], palette: Palette) -> Picture:
    """A histogram per score, in multiples of the uniform score, with a line at a tenth of it.

    Args:
        histograms: score -> "counts" of n bins and their n + 1 "edges".
    """
    from retrofit_core.experiments.results import share_below

    words, traces, notes, shapes = [], [], [], []
    for row, (score, histogram) in enumerate(histograms.items(), 1):
        counts, edges = np.array(histogram["counts"], dtype=float), np.array(histogram["edges"], dtype=float)
        x, y = (f"{axis}{row if row > 1 else ''}" for axis in "xy")
        traces.append(
            bars(
                (edges[1:] + edges[:-1]) / 2,
                counts,
                "%{x:.2f} of the uniform score: %{y:.0f} neurons",
                width=np.diff(edges).tolist(),
                marker={"color": palette.grey, "line": edge(palette.outline)},
                xaxis=x,
                yaxis=y,
            )
        )
        shapes.append(up_paper(FAINT, edge(palette.grouping, 2, "dash"), xref=x, yref=f"{y} domain"))
        right = {"xref": f"{x} domain", "xanchor": "right", "yref": f"{y} domain", "yanchor": "top"}
        notes.append(note(f"{title(score)}, {counts.sum():.0f} neurons", 1, 1, **right))
        words.append(f"{title(score)} {percent(share_below(histogram, FAINT))}")
    count = len(histograms)
    below = axis("score in multiples of the uniform one (dashed: a tenth)")
    return picture_of(
        palette,
        traces,
        50 + PANEL * count,
        "Histograms of importance scores",
        f"Neurons below a tenth of the uniform score: {listing(words)}.",
        margin=(56, 12, 10, 48),
        bargap=0,
        shapes=shapes,
        annotations=notes,
        **panels([1 / count] * count, 0.12, below, [axis("neurons")] * count),
    )
