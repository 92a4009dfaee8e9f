"""What a user gets for the next image and the next minute: accuracy over a fusion's seconds, by method and images."""

from collections.abc import Mapping, Sequence
from html import escape
from statistics import mean
from typing import Any

import numpy as np

from .drawing import BELOW, HEAD, Ends, Trace, axis, drawn, edge, line, log_ticks, mark, note, padded, scatter
from .palette import SHAPES, Palette
from .picture import Picture
from .words import listing, number, percent

#: Heights in px: the panels, their heads, and what lies below them.
PANEL, HEADS, BOTTOM = 340, 44, 120
BETWEEN = 0.09  # share of the width between two panels
FULL = "all parents"
ENSEMBLES = {"ensemble": "dash", "centred ensemble": "dot"}


def frontier(record: Mapping[str, Any], palette: Palette) -> Picture:
    """A panel for each kind of parents, a line for each method and source of images; larger marks are of more images.

    Args:
        record: as `benchmarks/frontier.py` writes it: rows, and references (accuracies of parents and ensemble) by network.
    """
    rows = [row for row in record["rows"] if not row["augmented"]]
    networks = [name for name in record["references"] if any(row["network"] == name for row in rows)]
    ways = list(dict.fromkeys(row["way"] for row in rows))
    width = (1 - BETWEEN * (len(networks) - 1)) / len(networks)
    traces, notes, axes, findings = _legend(ways, palette), [], {}, []
    for index, network in enumerate(networks):
        own, side = [row for row in rows if row["network"] == network], str(index + 1) if index else ""
        references = record["references"][network]
        best = max(value for name, value in references.items() if name.startswith("parent"))
        heights = {"best parent": best, **{name: references[name] for name in ENSEMBLES}}
        ends = padded(np.log10([row["seconds"] for row in own]), 0.07)
        traces += _panel(own, ways, heights, (10 ** ends[0], 10 ** ends[1]), side, palette)
        left = index * (width + BETWEEN)
        accuracies = [*heights.values(), *(row["accuracy"] for row in own)]
        axes[f"xaxis{side}"] = axis(
            "seconds of one thread",
            type="log",
            domain=[left, left + width],
            anchor=f"y{side}",
            range=ends,
            **log_ticks(ends[0], ends[1]),
        )
        axes[f"yaxis{side}"] = axis(
            "" if index else "accuracy %", range=padded(accuracies, 0.08), anchor=f"x{side}", nticks=6, automargin=True
        )
        notes.append(note(f"<b>{escape(network).replace(', ', '<br>')}</b>", left, 1, **HEAD, yshift=4, align="left"))
        notes += [
            note(
                f"{name} {number(value)}",
                ends[0],
                value,
                palette.muted,
                **_beside(side, above=value == max(heights.values())),
            )
            for name, value in heights.items()
        ]
        top = max(own, key=lambda row: row["accuracy"])
        findings.append(
            f"{network}: {top['way']} with {top['samples']:,} images of {top['of']} reaches {percent(top['accuracy'])} "
            f"in {top['seconds']:,.0f} s (ensemble {percent(references['ensemble'])})"
        )
    return drawn(
        palette,
        traces,
        HEADS + PANEL + BOTTOM,
        f"Lines of accuracy over seconds of a fusion, one panel each for {listing(networks)}",
        f"{'; '.join(findings)}.",
        title="Accuracy for the next image and the next minute; the larger the mark, the more images",
        margin=(50, 12, HEADS, BOTTOM),
        annotations=notes,
        legend={**BELOW, "orientation": "h", "xref": "container"},
        **axes,
    )


def _legend(ways: Sequence[str], palette: Palette) -> list[Trace]:
    looks = {way: (SHAPES[index], palette.parent(index), palette.parent(index)) for index, way in enumerate(ways)}
    sources = {
        "images of all parents": ("circle", palette.muted, palette.muted),
        "of parent 0": ("circle", palette.paper, palette.muted),
    }
    return [
        scatter([None], [None], "markers", name=escape(name), marker=mark(symbol, 9, inside, outline, 2))
        for name, (symbol, inside, outline) in (looks | sources).items()
    ]


def _panel(
    rows: Sequence[Mapping[str, Any]],
    ways: Sequence[str],
    heights: Mapping[str, float],
    ends: Ends,
    side: str,
    palette: Palette,
) -> list[Trace]:
    """Horizontal lines of ensemble and best parent, then the methods' lines."""
    place = {"xaxis": f"x{side}", "yaxis": f"y{side}"}
    traces = [
        line(list(ends), [value, value], palette.muted, 1.5, ENSEMBLES.get(name, "longdashdot"), **place)
        for name, value in heights.items()
    ]
    for index, way in enumerate(ways):
        for of in dict.fromkeys(row["of"] for row in rows):
            points = _points([row for row in rows if (row["way"], row["of"]) == (way, of)])
            if not points:
                continue
            colour = palette.parent(index)
            sizes = [7 + 5 * np.log10(samples / 100) for samples in points]  # px
            traces.append(
                scatter(
                    [seconds for seconds, _ in points.values()],
                    [accuracy for _, accuracy in points.values()],
                    "lines+markers",
                    [
                        f"{escape(way)}, {samples:,} images of {escape(of)}<br>{percent(accuracy)} in {seconds:,.0f} s"
                        for samples, (seconds, accuracy) in points.items()
                    ],
                    line=edge(colour, 2, "solid" if of == FULL else "dot"),
                    marker=mark(SHAPES[index], sizes, colour if of == FULL else palette.paper, colour, 2),
                    **place,
                )
            )
    return traces


def _points(rows: Sequence[Mapping[str, Any]]) -> dict[int, tuple[float, float]]:
    """Number of images -> mean seconds and accuracy over seeds."""
    counts = sorted({row["samples"] for row in rows})
    groups = {count: [row for row in rows if row["samples"] == count] for count in counts}
    return {
        count: (mean(row["seconds"] for row in group), mean(row["accuracy"] for row in group))
        for count, group in groups.items()
    }


def _beside(side: str, above: bool) -> dict[str, Any]:
    """At the left end of a horizontal line, above or below it."""
    return {
        "xref": f"x{side}",
        "yref": f"y{side}",
        "xanchor": "left",
        "yanchor": "bottom" if above else "top",
        "xshift": 2,
    }
