"""Where each class's knowledge came from, and what became of it: parents and fused networks, class by class."""

from collections.abc import Sequence
from html import escape
from textwrap import wrap

import numpy as np
import plotly.graph_objects as go

from .accuracy import Network
from .palette import TEXT, Palette, mixed, scale, shade
from .picture import Picture, layout, letter, listing, number, percent, quoted, room, rows, share, titled
from .tiles import KNOWN

LETTERED = 20  # classes up to which every cell has its number, and every column its name
#: Per cent of a class right from which on a parent has knowledge to give, and the share of it below which it is forgotten.
GIVES, FORGOTTEN = 50.0, 0.5
EQUAL = 1.0  # points up to which two parents know a class equally well
SOURCE = "best parent"
NAME = 16  # letters of a network's name in a line: a telephone has room for little more beside ten classes


def class_sources(
    parents: Sequence[Network], fused: Sequence[Network], classes: Sequence[str], palette: Palette
) -> Picture:
    """A row for each network and a column for each class, its shade the accuracy; on top, which parent knows the class best.

    Columns stand by that parent, so that what came from each stands together.
    """
    order = sorted(range(len(classes)), key=lambda index: _source_order(parents, index))
    networks = [*parents, *fused]
    lines = [wrap(network.name, NAME) or [""] for network in networks]
    names = [_in_bold("<br>".join(map(escape, each)), network) for each, network in zip(lines, networks, strict=True)]
    columns = list(range(len(classes)))
    values = [[_value(network, index) for index in order] for network in networks]
    low, high = scale(palette)
    figure = go.Figure(
        go.Heatmap(
            z=values,
            x=columns,
            y=list(range(1, len(names) + 1)),
            customdata=[[classes[index] for index in order] for _ in networks],
            colorscale=[[0, low], [1, high]],
            zmin=0,
            zmax=100,
            xgap=2 if len(classes) <= LETTERED else 0,
            ygap=2,
            showscale=False,
            hoverongaps=False,
            text=[[network.name] * len(classes) for network in networks],
            hovertemplate="%{text}<br>class %{customdata}: %{z:.1f} %<extra></extra>",
        )
    )
    _band(figure, parents, [source(parents, index) for index in order], palette)
    if len(classes) <= LETTERED:
        cells = [value for row in values for value in row]
        figure.add_scatter(
            x=columns * len(names),
            y=[row + 1 for row in range(len(names)) for _ in columns],
            text=["–" if np.isnan(value) else share(value, 0) for value in cells],
            mode="text",
            textfont={
                "size": 13,
                "color": [palette.ink if np.isnan(value) else shade(value / 100, palette)[1] for value in cells],
            },
            hoverinfo="skip",
            showlegend=False,
            cliponaxis=False,
        )
    shown = [quoted(classes[index]) for index in order]
    upright = len(classes) <= LETTERED and max(map(len, shown)) > 3
    top = (room(shown) if upright else 30) + 20
    first = 0 if len(parents) > 1 else 1
    high = max(34, 8 + 17 * max(map(len, lines)))  # px of a row
    figure.update_layout(**layout(palette, height=14 + top + high * (len(networks) + 1 - first)))
    figure.update_xaxes(
        side="top",
        title=titled("class" if len(classes) <= LETTERED else f"{len(classes)} classes"),
        tickvals=columns if len(classes) <= LETTERED else [],
        ticktext=shown if len(classes) <= LETTERED else [],
        tickangle=-90 if upright else 0,
        range=[-0.5, len(classes) - 0.5],
        ticks="",
        showgrid=False,
        zeroline=False,
        fixedrange=True,
        tickfont={"size": TEXT, "color": palette.ink},
    )
    figure.update_yaxes(
        **{**rows(palette), "autorange": False},
        range=[len(names) + 0.5, first - 0.5],
        tickvals=list(range(first, len(names) + 1)),
        ticktext=[SOURCE, *names][first:],
    )
    widest = room([SOURCE, *(line for each in lines for line in each)])
    figure.update_layout(margin={"l": widest, "r": 4, "t": top, "b": 10})
    words = " ".join(forgotten(network, parents, classes) for network in fused)
    return Picture(figure, f"Table of accuracy by class. {origins(parents, classes)} {words}".strip())


def source(parents: Sequence[Network], index: int) -> int | None:
    """The parent that knows a class best; None where none knows it, or several know it equally well."""
    values = [_value(parent, index) for parent in parents]
    known = [value for value in values if not np.isnan(value)]
    best = max(known, default=0.0)
    if best < KNOWN or sum(value >= best - EQUAL for value in known) > 1:
        return None
    return values.index(best)


def origins(parents: Sequence[Network], classes: Sequence[str]) -> str:
    """Which classes which parent knows best, in a sentence."""
    if len(parents) < 2:
        return ""
    by = {
        parent: [name for index, name in enumerate(classes) if source(parents, index) == parent]
        for parent in range(len(parents))
    }
    words = [f"{parents[parent].name} knows {_classes(names)} best" for parent, names in by.items() if names]
    return f"{_first_up(listing(words))}." if words else "The parents know all classes equally well."


def forgotten(network: Network, parents: Sequence[Network], classes: Sequence[str]) -> str:
    """What a fused network kept of what its parents knew, in a sentence; empty where they knew nothing."""
    gaps = []
    for index, name in enumerate(classes):
        best = max((_value(parent, index) for parent in parents), default=float("nan"))
        ours = _value(network, index)
        if best >= GIVES and not np.isnan(ours):
            gaps.append((ours - best, name, ours, best))
    if not gaps:
        return ""
    lost = [
        f"{name} ({share(ours, 0)} of {percent(best, 0)})" for _, name, ours, best in gaps if ours < FORGOTTEN * best
    ]
    if lost:
        return f"{network.name} has forgotten {listing(lost)}."
    points, name, ours, best = min(gaps)
    if points >= 0:
        return f"{network.name} knows every class at least as well as its best parent."
    return (
        f"{network.name} forgets no class; it loses most on {name}: {percent(ours, 0)}, where the best parent gets "
        f"{percent(best, 0)}."
    )


def apart(first: Network, second: Network, classes: Sequence[str]) -> str:
    """On which classes two networks differ most, in a sentence."""
    gaps = [(_value(first, index) - _value(second, index), name) for index, name in enumerate(classes)]
    gaps = [(points, name) for points, name in gaps if abs(points) >= EQUAL]
    if not gaps:
        return f"{first.name} and {second.name} are equally good on every class."
    better, worse = max(gaps), min(gaps)
    words = [f"ahead on {better[1]} (+{number(better[0])} points)"] if better[0] > 0 else []
    words += [f"behind on {worse[1]} ({number(worse[0])} points)"] if worse[0] < 0 else []
    return f"Of the two, {first.name} is furthest {' and furthest '.join(words)}."


def _in_bold(name: str, network: Network) -> str:
    return f"<b>{name}</b>" if network.role == "fused" else name


def _source_order(parents: Sequence[Network], index: int) -> int:
    best = source(parents, index) if len(parents) > 1 else None
    return len(parents) if best is None else best


def _band(figure: go.Figure, parents: Sequence[Network], sources: Sequence[int | None], palette: Palette) -> None:
    """A row of squares in the parents' colours, with their letters."""
    if len(parents) < 2:
        return
    fills = [palette.parent(best) if best is not None else palette.line for best in sources]
    figure.add_scatter(
        x=list(range(len(sources))),
        y=[0] * len(sources),
        mode="markers+text" if len(sources) <= LETTERED else "markers",
        marker={
            "symbol": "square",
            "size": 22 if len(sources) <= LETTERED else 8,
            "color": fills,
            "line": {"width": 0},
        },
        text=[letter(best) if best is not None else "=" for best in sources],
        textfont={"size": 13, "color": [mixed(fill, fill, 0)[1] for fill in fills]},
        hovertext=[
            f"best on this class: {parents[best].name}" if best is not None else "none is ahead" for best in sources
        ],
        hoverinfo="text",
        showlegend=False,
        cliponaxis=False,
    )


def _value(network: Network, index: int) -> float:
    value = network.per_class[index]
    return float("nan") if value is None else float(value)


def _classes(names: Sequence[str]) -> str:
    return f"{listing(names)}" if len(names) <= LETTERED else f"{len(names)} classes"


def _first_up(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
