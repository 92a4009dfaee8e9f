"""Networks class by class: which parent knew each class, what the fused networks kept of it, and what a network confuses."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap

import numpy as np

from .drawing import CELL, Trace, cell_words, cells, inks, mark, name_axis, picture_of, room, rows, scatter
from .palette import Palette, mixed, scale
from .picture import Picture
from .tiles import KNOWN
from .words import first_up, letter, listing, percent, quoted, share

LETTERED = 20  # most classes for which cells have numbers and columns names
#: A parent knows a class from this accuracy in per cent; below this share of it, the class is forgotten.
GIVES, FORGOTTEN = 50.0, 0.5
LOST, MOST_TOLD = "forgotten:", 3  # most fates that are told; of more, only forgotten classes
EQUAL = 1.0  # points within which two parents know a class equally well
SOURCE = "best parent"
NAME = 16  # letters of a network's name per line: all that fits on a phone beside ten classes


@dataclass(frozen=True)
class Network:
    """A measured network: a row."""

    name: str
    role: str
    """parent, reference or fused"""
    accuracy: float
    per_class: Sequence[float | None]


def class_sources(
    parents: Sequence[Network], fused: Sequence[Network], classes: Sequence[str], palette: Palette
) -> Picture:
    """Networks (rows) by classes (columns), shaded by accuracy; on top, the parent that knows each class best.

    That parent orders the columns, so that each one's classes are together.
    """
    order = sorted(range(len(classes)), key=lambda index: _source_order(parents, index))
    networks, few = [*parents, *fused], len(classes) <= LETTERED
    lines = [wrap(network.name, NAME) or [""] for network in networks]
    heads = [_in_bold("<br>".join(map(escape, each)), network) for each, network in zip(lines, networks, strict=True)]
    named = [quoted(classes[index]) for index in order] if few else []
    upright = max(map(len, named), default=0) > 3  # so that narrow columns cut none
    top = (room(named) if upright else 30) + 20
    band = [SOURCE] if len(parents) > 1 else []
    high = max(34, 8 + 17 * max(map(len, lines)))  # px, a row
    return picture_of(
        palette,
        [*_cells(networks, order, classes, palette), *_band(parents, [source(parents, i) for i in order], palette)],
        14 + top + high * (len(networks) + len(band)),
        "Table of accuracy by class",
        f"{origins(parents, classes)} {forgotten(fused, parents, classes)}".strip(),
        caption="",
        margin=(room([SOURCE, *(line for each in lines for line in each)]), 4, top, 10),
        xaxis=name_axis(
            palette,
            named,
            title={"text": "class" if few else f"{len(classes)} classes"},
            side="top",
            tickangle=-90 if upright else 0,
            range=[-0.5, len(classes) - 0.5],
        ),
        yaxis=rows(
            palette,
            autorange=False,
            range=[len(heads) - 0.5, -0.5 - len(band)],
            tickvals=list(range(-len(band), len(heads))),
            ticktext=[*band, *heads],
        ),
    )


def _cells(networks: Sequence[Network], order: Sequence[int], classes: Sequence[str], palette: Palette) -> list[Trace]:
    """A cell for each network and class, classes in the given order; with its number if classes are few."""
    values = [[_value(network, index) for index in order] for network in networks]
    few = len(classes) <= LETTERED
    tips = [
        [
            f"{escape(network.name)}<br>class {escape(classes[index])}: {_word(_value(network, index), 1)} %"
            for index in order
        ]
        for network in networks
    ]
    table = cells(values, scale(palette), 100, tips, **({} if few else {"xgap": 0}))
    if not few:
        return [table]
    shades = inks(np.array(values) / 100, scale(palette), palette)
    return [table, cell_words([[_word(value, 0) for value in row] for row in values], shades)]


def _word(value: float, digits: int) -> str:
    return "–" if np.isnan(value) else share(value, digits)


def source(parents: Sequence[Network], index: int) -> int | None:
    """The parent that knows a class best; None if none does, or several equally well."""
    values = [_value(parent, index) for parent in parents]
    known = [value for value in values if not np.isnan(value)]
    best = max(known, default=0.0)
    if best < KNOWN or sum(value >= best - EQUAL for value in known) > 1:
        return None
    return values.index(best)


def origins(parents: Sequence[Network], classes: Sequence[str]) -> str:
    """One sentence on which parent knows which classes best."""
    if len(parents) < 2:
        return ""
    by = {
        parent: [name for index, name in enumerate(classes) if source(parents, index) == parent]
        for parent in range(len(parents))
    }
    words = [f"{parents[parent].name} knows {_classes(names)} best" for parent, names in by.items() if names]
    return f"{first_up(listing(words))}." if words else "No parent is ahead of the others on any class."


def forgotten(networks: Sequence[Network], parents: Sequence[Network], classes: Sequence[str]) -> str:
    """What fused networks kept of their parents' knowledge, equal ones in one sentence; of many, only those that lost a class."""
    fates: dict[str, list[str]] = {}
    for network in networks:
        fates.setdefault(_fate(network, parents, classes), []).append(network.name)
    told = {fate: names for fate, names in fates.items() if fate and (len(fates) <= MOST_TOLD or fate.startswith(LOST))}
    return " ".join(f"{first_up(listing(names))}: {fate}." for fate, names in told.items())


def _fate(network: Network, parents: Sequence[Network], classes: Sequence[str]) -> str:
    """What a fused network kept of its parents' knowledge; empty if they knew nothing."""
    gaps = []
    for index, name in enumerate(classes):
        best = max((_value(parent, index) for parent in parents), default=float("nan"))
        ours = _value(network, index)
        if not np.isnan(best) and not np.isnan(ours):
            gaps.append((ours - best, name, ours, best))
    if not any(best for *_, best in gaps):
        return ""
    lost = [
        f"{name} ({share(ours, 0)} of {percent(best, 0)})"
        for _, name, ours, best in gaps
        if best >= GIVES and ours < FORGOTTEN * best
    ]
    if lost:
        return f"{LOST} {listing(lost)}"
    points, name, ours, best = min(gaps)
    if points >= 0:
        return "every class at least as well as its best parent"
    kept = "no class forgotten; " if all(best >= GIVES for *_, best in gaps) else ""  # weakly known ones are not judged
    return f"{kept}most lost on {name}: {percent(ours, 0)}, where that class's best parent gets {percent(best, 0)}"


def _in_bold(name: str, network: Network) -> str:
    return f"<b>{name}</b>" if network.role == "fused" else name


def _source_order(parents: Sequence[Network], index: int) -> int:
    best = source(parents, index) if len(parents) > 1 else None
    return len(parents) if best is None else best


def _band(parents: Sequence[Network], sources: Sequence[int | None], palette: Palette) -> list[Trace]:
    """A row of squares in the parents' colours, with their letters; none for a single parent."""
    if len(parents) < 2:
        return []
    fills = [palette.parent(best) if best is not None else palette.line for best in sources]
    few = len(sources) <= LETTERED
    band = scatter(
        list(range(len(sources))),
        [-1] * len(sources),
        "markers+text" if few else "markers",
        [f"best on this class: {parents[best].name}" if best is not None else "none is ahead" for best in sources],
        marker=mark("square", 22 if few else 8, fills, width=0),
        text=[letter(best) if best is not None else "=" for best in sources],
        textfont={"size": CELL, "color": [mixed(fill, fill, 0)[1] for fill in fills]},
        cliponaxis=False,
    )
    return [band]


def _value(network: Network, index: int) -> float:
    value = network.per_class[index]
    return float("nan") if value is None else float(value)


def _classes(names: Sequence[str]) -> str:
    return listing(names) if len(names) <= LETTERED else f"{len(names)} classes"
