"""The levels of two runs above each other, matched by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from .diagnosis import fitted
from .palette import TEXT, Palette
from .picture import Picture, axis, hatched, layout, listing, number, percent, titled

MANY = 16  # levels above which bars carry no numbers
FEW = 6  # levels up to which every error has a decimal


@dataclass(frozen=True)
class Strip:
    """The levels of a run."""

    name: str
    table: Any
    """As `results.frame` makes it"""
    accuracy: Sequence[float]
    """Of the ensemble, then after each level; empty where it was not measured"""


def matched_names(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """All levels of two runs, those of one name together, each run's in its own order."""
    names, rest = [], list(second)
    for name in first:
        if name in rest:
            ahead = rest[: rest.index(name)]
            names += [each for each in ahead if each not in first]
            rest = rest[rest.index(name) + 1 :]
        names.append(name)
    return [*names, *(name for name in rest if name not in names)]


def matched_levels(first: Strip, second: Strip, palette: Palette) -> Picture:
    """Both errors of every level of two runs, one below the other, and above them the accuracy after each level.

    A level that only one of them has is an empty place in the other.
    """
    names = matched_names(*(list(strip.table["level"]) for strip in (first, second)))
    places = {name: index for index, name in enumerate(names)}
    measured = [strip for strip in (first, second) if len(strip.accuracy) == len(strip.table) + 1]
    top = max(float(_errors(strip).max()) for strip in (first, second)) * 1.25 or 1.0
    figure = go.Figure()
    for index, strip in enumerate((first, second)):
        _bars(figure, strip, places, palette, "y" if not index else "y2", first=not index)
        _missing(figure, strip, names, palette, top, "y" if not index else "y2")
    for index, strip in enumerate(measured):
        _line(figure, strip, places, palette, dashed=strip is second, above=_above(measured, index))
    _axes(figure, first, second, names, top, bool(measured), palette)
    finding = _finding(first, second)
    return Picture(
        figure,
        f"Grouping and approximation error of {len(names)} levels of {first.name}, above, and {second.name}, below. {finding}",
        finding,
    )


def _errors(strip: Strip) -> Any:
    return 100 * (strip.table["grouping share"] + strip.table["approximation share"]).to_numpy(dtype=float)


def _bars(figure: go.Figure, strip: Strip, places: dict[str, int], palette: Palette, yaxis: str, first: bool) -> None:
    x = [places[name] for name in strip.table["level"]]
    grouping = 100 * strip.table["grouping share"]
    tips = [
        f"{strip.name}<br>{name}: grouping {percent(100 * one)}, approximation {percent(100 * other)}"
        for name, one, other in zip(
            strip.table["level"], strip.table["grouping share"], strip.table["approximation share"], strict=True
        )
    ]
    for share, colour, pattern, word in (
        ("grouping share", palette.grouping, "", "grouping"),
        ("approximation share", palette.approximation, "/", "approximation"),
    ):
        figure.add_bar(
            x=x,
            y=(100 * strip.table[share]).tolist(),
            base=None if share == "grouping share" else grouping.tolist(),
            width=0.56,
            yaxis=yaxis,
            name=word,
            legendgroup=word,
            showlegend=first,
            marker=hatched(palette, colour, pattern),
            hovertext=tips,
            hoverinfo="text",
        )
    if len(places) <= MANY:
        errors = _errors(strip)
        figure.add_scatter(
            x=x,
            y=errors.tolist(),
            yaxis=yaxis,
            mode="text",
            text=[number(error, 0 if error >= 10 and len(places) > FEW else 1) for error in errors],
            textposition="top center",
            textfont={"size": TEXT, "color": palette.ink},
            hoverinfo="skip",
            showlegend=False,
            cliponaxis=False,
        )


def _missing(figure: go.Figure, strip: Strip, names: Sequence[str], palette: Palette, top: float, yaxis: str) -> None:
    """Empty places with a dashed frame, for levels that only the other run has."""
    own = set(strip.table["level"])
    for index, name in enumerate(names):
        if name not in own:
            figure.add_shape(
                type="rect",
                xref="x",
                yref=yaxis,
                x0=index - 0.28,
                x1=index + 0.28,
                y0=0,
                y1=top * 0.7,
                line={"color": palette.muted, "width": 1, "dash": "dot"},
            )
            figure.add_annotation(
                x=index,
                y=top * 0.35,
                yref=yaxis,
                text="none",
                showarrow=False,
                font={"size": TEXT, "color": palette.muted},
            )


def _line(
    figure: go.Figure, strip: Strip, places: dict[str, int], palette: Palette, dashed: bool, above: Sequence[bool]
) -> None:
    """The accuracy after each level, which begins with the ensemble's."""
    figure.add_scatter(
        x=[-1, *(places[name] for name in strip.table["level"])],
        y=list(strip.accuracy),
        yaxis="y3",
        mode="lines+markers+text",
        text=[number(value) if len(places) <= MANY else "" for value in strip.accuracy],
        textposition=["top center" if up else "bottom center" for up in above],
        textfont={"size": TEXT, "color": palette.muted if dashed else palette.ink},
        line={"color": palette.muted if dashed else palette.ink, "width": 2, "dash": "dash" if dashed else "solid"},
        marker={
            "size": 9,
            "symbol": "diamond" if dashed else "circle",
            "color": palette.muted if dashed else palette.ink,
            "line": {"width": 0},
        },
        name=strip.name,
        legend="legend2",
        hovertext=[
            f"{strip.name}<br>all networks side by side: {percent(strip.accuracy[0])}",
            *(
                f"{strip.name}<br>accuracy if fusion stopped after {name}: {percent(value)}"
                for name, value in zip(strip.table["level"], strip.accuracy[1:], strict=True)
            ),
        ],
        hoverinfo="text",
        cliponaxis=False,
    )


def _above(measured: Sequence[Strip], index: int) -> list[bool]:
    """Where a line's numbers stand: those of the higher line above, of the lower one below; the second one's below where both
    are the same."""
    ours = measured[index].accuracy
    if len(measured) < 2:
        return [True] * len(ours)
    other = measured[1 - index].accuracy
    if len(other) != len(ours):
        return [not index] * len(ours)
    return [one > two or (one == two and not index) for one, two in zip(ours, other, strict=True)]


def _axes(
    figure: go.Figure, first: Strip, second: Strip, names: Sequence[str], top: float, measured: bool, palette: Palette
) -> None:
    bare = {
        **axis(palette),
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
        "showline": False,
        "showticklabels": False,
    }
    bottom, middle, high = (
        ((0.0, 0.29), (0.36, 0.65), (0.74, 1.0)) if measured else ((0.0, 0.45), (0.55, 1.0), (1.0, 1.0))
    )
    figure.update_layout(
        **layout(palette, height=470 if measured else 340),
        barmode="overlay",
        margin={"l": 26, "r": 8, "t": 34, "b": 56},
        legend={"orientation": "h", "x": 0, "y": -0.075, "yanchor": "top", "font": {"size": TEXT}, "itemclick": False},
        legend2={
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "yanchor": "bottom",
            "font": {"size": TEXT},
            "itemclick": False,
        },
        yaxis={**bare, "domain": list(middle), "range": [0, top], "title": titled("error, %")},
        yaxis2={**bare, "domain": list(bottom), "range": [0, top], "title": titled("error, %"), "anchor": "x"},
    )
    for strip, (_, end) in ((first, middle), (second, bottom)):
        figure.add_annotation(
            x=0,
            xref="paper",
            xanchor="left",
            y=end,
            yref="paper",
            yanchor="bottom",
            text=f"<b>{strip.name}</b>",
            showarrow=False,
            font={"size": TEXT, "color": palette.ink},
        )
    low = -1.45 if measured else -0.6
    figure.update_xaxes(
        **{**bare, "showticklabels": True},
        range=[low, len(names) - 0.4],
        tickvals=[*([-1] if measured else []), *range(len(names))],
        ticktext=[*(["ensemble"] if measured else []), *_labels(names)],
        tickangle=0,
        anchor="y2",
    )
    if measured:
        values = [value for strip in (first, second) for value in strip.accuracy]
        span = max(max(values) - min(values), 1.0)
        figure.update_layout(
            yaxis3={
                **bare,
                "domain": list(high),
                "range": [min(values) - 0.45 * span, max(values) + 0.45 * span],
                "title": titled("accuracy"),
                "anchor": "x",
            }
        )


def _labels(names: Sequence[str]) -> list[str]:
    """Their numbers: names do not fit side by side on a telephone."""
    return [str(index + 1) if len(names) <= MANY or index % 5 == 0 else "" for index in range(len(names))]


def _finding(first: Strip, second: Strip) -> str:
    """At which level the errors differ most, and which levels only one of both has."""
    tables = [dict(zip(strip.table["level"], _errors(strip).tolist(), strict=True)) for strip in (first, second)]
    common = [name for name in tables[0] if name in tables[1]]
    words = []
    if common:
        name = max(common, key=lambda each: abs(tables[0][each] - tables[1][each]))
        one, other = tables[0][name], tables[1][name]
        if abs(one - other) < 0.05:
            words.append("Both lose the same at every level.")
        else:
            less, more = (first, second) if one < other else (second, first)
            words.append(
                f"They differ most at {name}: {less.name} has an error of {percent(min(one, other))}, {more.name} of "
                f"{percent(max(one, other))}."
            )
    else:
        words.append("They have no level of the same name.")
    for strip, (ours, theirs) in zip((first, second), (tables, tables[::-1]), strict=True):
        if only := [name for name in ours if name not in theirs]:
            words.append(f"Only {strip.name} has {listing(only)}.")
    if not all(fitted(strip.table) for strip in (first, second)):
        words.append("A method that aligns neurons and fits no level has no approximation error.")
    return " ".join(words)
