"""Which neurons a grouping merges: the networks' bands run into groups, as wide as their shares of the groups' targets."""

import numpy as np

from .drawing import edge, picture_of
from .neurons import Neurons, counterparts, group_order
from .palette import TEXT, Palette
from .picture import Picture
from .plane import ALONE, OTHER, fills, group_facts
from .words import letter, network, percent

SHOWN = 8  # most groups with a bar of their own
GAP = 0.045  # between two bars, as a share of the height: room for their names


def ribbon(grouped: Neurons, palette: Palette, reference: Neurons | None = None, height: int = 400) -> Picture:
    """Networks on the left, groups on the right, the largest first and small ones bundled.

    A band is as wide as the importance that a network's neurons bring into a group: within a group, their shares of the
    target.

    Args:
        reference: the grouping whose groups set the colours, as in the plane; by default this one.
    """
    order, parents = group_order(grouped), len(grouped.widths)
    several = [group for group in order if grouped.counts[group] > 1]
    own = several[:SHOWN] if len(order) > SHOWN else order
    rest = [group for group in several if group not in own]
    alone = [group for group in order if grouped.counts[group] == 1 and group not in own]
    bundles = [(f"group {group}{grouped.class_of(group)}: {grouped.counts[group]} neurons", [group]) for group in own]
    bundles += [(f"{len(rest)} smaller group{'s' * (len(rest) > 1)}", rest)] * bool(rest)
    bundles += [(f"{len(alone)} alone", alone)] * bool(alone)
    hues = counterparts(reference or grouped, grouped)

    def kind(groups: list[int]) -> int:
        hue = int(hues[groups[0]]) if len(groups) == 1 else -1
        return hue if hue >= 0 else OTHER if grouped.counts[groups[0]] > 1 else ALONE

    kinds = [kind(groups) for _, groups in bundles]
    brought = np.zeros((parents, grouped.width))
    np.add.at(brought, (grouped.parents, grouped.labels), np.maximum(grouped.weights, 1e-6))
    members = np.zeros((parents, grouped.width), dtype=int)
    np.add.at(members, (grouped.parents, grouped.labels), 1)
    values = np.stack([brought[:, groups].sum(1) for _, groups in bundles], 1)
    counts = np.stack([members[:, groups].sum(1) for _, groups in bundles], 1)
    sources, ends = np.nonzero(counts)
    tips = [
        f"{counts[a, b]} of {network(a)}’s neurons<br>{percent(100 * values[a, b] / values[:, b].sum(), 0)} of the "
        f"target{'s' if len(bundles[b][1]) > 1 else ''}"
        for a, b in zip(sources.tolist(), ends.tolist(), strict=True)
    ]
    letters = [f"{letter(parent)}: {width} neurons" for parent, width in enumerate(grouped.widths)]
    colours = [palette.parent(parent) for parent in range(parents)]
    room = 1 - GAP * (max(parents, len(bundles)) - 1)
    places = [*_middles(values.sum(1), room), *_middles(values.sum(0), room)]
    trace = {
        "type": "sankey",
        "arrangement": "fixed",
        "textfont": {"size": TEXT, "color": palette.ink},
        "node": {
            "label": [*letters, *(words for words, _ in bundles)],
            "color": [*colours, *(fills(palette)[kind] for kind in kinds)],
            "line": edge(palette.outline, 0.5),
            "x": [0.001] * parents + [0.999] * len(bundles),
            "y": places,
            "pad": round(GAP * height),
            "thickness": 16,
            "hovertemplate": "%{label}<extra></extra>",
        },
        "link": {
            "source": sources.tolist(),
            "target": (parents + ends).tolist(),
            "value": values[sources, ends].round(4).tolist(),
            "color": [f"{colours[parent]}59" for parent in sources.tolist()],
            "customdata": tips,
            "hovertemplate": "%{customdata}<extra></extra>",
        },
    }
    facts = " · ".join(group_facts(grouped))
    return picture_of(
        palette,
        [trace],
        height,
        f"Bands from {parents} networks into the groups of level {grouped.name}: {facts}",
        caption=facts,
        margin=(4, 4, 10, 10),
    )


def _middles(totals: np.ndarray, room: float) -> list[float]:
    """The bars' vertical centres, from the top, with a share of the height as room for the bars."""
    heights, gaps = totals / totals.sum() * room, GAP * np.arange(len(totals))
    return ((1 - room - gaps[-1]) / 2 + np.cumsum(heights) - heights / 2 + gaps).clip(0.001, 0.999).round(4).tolist()
