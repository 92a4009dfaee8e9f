"""Histograms that a record keeps as counts and edges."""

from collections.abc import Mapping, Sequence

import numpy as np

from .agreement import title
from .drawing import Trace, axis, bars, edge, note, panels, plot, up_paper
from .palette import Palette
from .picture import Picture, listing, percent

#: Below this share of the uniform score a neuron hardly counts.
FAINT = 0.1
PANEL = 210  # px


def kept_histograms(histograms: Mapping[str, Mapping[str, Sequence[float]]], palette: Palette) -> Picture:
    """One panel a score: how many neurons have which multiple of the uniform score; a line where a tenth of it lies.

    Args:
        histograms: by score, "counts" of bins and their "edges", one more.
    """
    from retrofit_core.experiments.results import share_below  # brings torch

    words: list[str] = []
    traces: list[Trace] = []
    notes, shapes = [], []
    faint = edge(palette.grouping, 2, "dash")
    for row, (score, histogram) in enumerate(histograms.items(), 1):
        counts, edges = np.array(histogram["counts"], dtype=float), np.array(histogram["edges"], dtype=float)
        side = str(row) if row > 1 else ""
        traces.append(
            bars(
                ((edges[1:] + edges[:-1]) / 2).tolist(),
                counts.tolist(),
                width=np.diff(edges).tolist(),
                marker={"color": palette.grey, "line": edge(palette.outline)},
                hovertemplate="%{x:.2f} of the uniform score: %{y:.0f} neurons<extra></extra>",
                xaxis=f"x{side}",
                yaxis=f"y{side}",
            )
        )
        shapes.append(up_paper(FAINT, faint, f"y{side} domain") | {"xref": f"x{side}"})
        right = {"xref": f"x{side} domain", "xanchor": "right", "yref": f"y{side} domain", "yanchor": "top"}
        notes.append(note(f"{title(score)}, {counts.sum():.0f} neurons", 1, 1, **right))
        words.append(f"{title(score)} {percent(share_below(histogram, FAINT))}")
    figure = plot(
        palette,
        traces,
        50 + PANEL * len(histograms),
        (56, 12, 10, 48),
        bargap=0,
        shapes=shapes,
        annotations=notes,
        **panels(
            [1 / len(histograms)] * len(histograms),
            0.12,
            axis("score in multiples of the uniform one (dashed: a tenth)"),
            [axis("neurons")] * len(histograms),
        ),
    )
    finding = f"Neurons below a tenth of the uniform score: {listing(words)}."
    return Picture(figure, f"Histograms of importance scores. {finding}", finding)
