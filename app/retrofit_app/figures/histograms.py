"""Histograms that a record keeps as counts and edges."""

from collections.abc import Mapping, Sequence

import numpy as np
from plotly.subplots import make_subplots

from .agreement import title
from .palette import TEXT, Palette
from .picture import Picture, axis, layout, listing, percent, titled

#: Below this share of the uniform score a neuron hardly counts.
FAINT = 0.1
PANEL = 210  # px


def kept_histograms(histograms: Mapping[str, Mapping[str, Sequence[float]]], palette: Palette) -> Picture:
    """One panel a score: how many neurons have which multiple of the uniform score; a line where a tenth of it lies.

    Args:
        histograms: by score, "counts" of bins and their "edges", one more.
    """
    from retrofit_core.experiments.results import share_below  # brings torch

    figure = make_subplots(rows=len(histograms), cols=1, shared_xaxes=True, vertical_spacing=0.12)
    words = []
    for row, (score, histogram) in enumerate(histograms.items(), 1):
        counts, edges = np.array(histogram["counts"], dtype=float), np.array(histogram["edges"], dtype=float)
        figure.add_bar(
            x=((edges[1:] + edges[:-1]) / 2).tolist(),
            y=counts.tolist(),
            width=np.diff(edges).tolist(),
            marker={"color": palette.grey, "line": {"color": palette.outline, "width": 1}},
            hovertemplate="%{x:.2f} of the uniform score: %{y:.0f} neurons<extra></extra>",
            showlegend=False,
            row=row,
            col=1,
        )
        figure.add_shape(
            type="line",
            x0=FAINT,
            x1=FAINT,
            y0=0,
            y1=1,
            yref="y domain",
            line={"color": palette.grouping, "width": 2, "dash": "dash"},
            row=row,
            col=1,
        )
        figure.add_annotation(
            text=f"{title(score)}, {counts.sum():.0f} neurons",
            x=1,
            xref="x domain",
            xanchor="right",
            y=1,
            yref="y domain",
            yanchor="top",
            showarrow=False,
            font={"size": TEXT, "color": palette.ink},
            row=row,
            col=1,
        )
        words.append(f"{title(score)} {percent(share_below(histogram, FAINT))}")
    figure.update_layout(
        **layout(palette, height=50 + PANEL * len(histograms)), bargap=0, margin={"l": 56, "r": 12, "t": 10, "b": 48}
    )
    figure.update_xaxes(**axis(palette))
    figure.update_yaxes(title=titled("neurons"), **axis(palette))
    figure.update_xaxes(
        title=titled("score in multiples of the uniform one (dashed: a tenth)"), row=len(histograms), col=1
    )
    finding = f"Neurons below a tenth of the uniform score: {listing(words)}."
    return Picture(figure, f"Histograms of importance scores. {finding}", finding)
