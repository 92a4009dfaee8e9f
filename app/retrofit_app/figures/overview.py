"""The method in one picture, drawn from a real fusion of small networks (the paper's figure fig:algo)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .drawing import Trace, line, mark, note, picture_of, scatter
from .palette import SHAPES, Palette
from .picture import Picture
from .words import percent

#: Horizontal places in px of a picture 820 px wide: networks and strips of neurons' outputs.
PARENTS, PARENT_STRIPS, TARGETS, FUSED_STRIPS, FUSED = (12, 158), (190, 300), (392, 502), (552, 662), (690, 808)
WIDTH, TOP, ROW, BETWEEN = 820, 62, 26, 18
HIDDEN = 8  # most neurons of a level
MARK, STRIP = 12, 16
#: Weights relative to a level's largest, from which lines are drawn and get wider.
SIZES = (0.15, 0.4, 0.7)


def overview(
    parents: Sequence[Any], fused: Any, level: Any, outputs: Any, columns: Sequence[str], palette: Palette
) -> Picture:
    """The parents' outputs at their first level, groups, targets, and the fused network's outputs fitted to these.

    Colour: group, grey for single neurons; shape: network; line width: the neuron's share in its group's mean. A strip
    shows a neuron's mean output for each class, negative in one colour and positive in another, on one scale.

    Args:
        parents, fused: networks of linear layers, two of them.
        level: the first level's `LevelReport`, with at most HIDDEN neurons per network.
        outputs: one array (neurons, columns) for each parent and one for the fused network.
        columns: names of the classes.
    Raises:
        ValueError: not two parents, or too many neurons.
    """
    if len(parents) != 2 or max(*level.widths, level.width) > HIDDEN:
        raise ValueError(f"the overview shows two parents with at most {HIDDEN} neurons in their first level.")
    labels, scores = level.labels.numpy(), level.scores.double().numpy()
    shares = scores / np.bincount(labels, scores, level.width)[labels]
    *of_parents, of_fused = [np.asarray(each, dtype=float) for each in outputs]
    z = np.concatenate(of_parents)
    targets = np.stack([shares[labels == k] @ z[labels == k] for k in range(level.width)])
    rows = [TOP + ROW * (index + 0.5) for index in range(level.widths[0])]
    rows += [rows[-1] + BETWEEN + ROW * (index + 1) for index in range(level.widths[1])]
    bottom = rows[-1] + ROW / 2
    step = (bottom - TOP) / level.width
    places = [TOP + step * (index + 0.5) for index in range(level.width)]
    order = np.argsort([np.mean([rows[j] for j in np.flatnonzero(labels == k)]) for k in range(level.width)])
    heights = {int(k): places[index] for index, k in enumerate(order)}
    several = [int(k) for k in order if (labels == k).sum() > 1]
    hues = dict.fromkeys(range(level.width), palette.grey)
    hues |= {k: palette.clusters[index % len(palette.clusters)] for index, k in enumerate(several)}
    limit = float(np.abs(np.concatenate([z, of_fused])).max())
    fused_rows = [heights[k] for k in range(level.width)]
    strips = ((PARENT_STRIPS, rows, z), (TARGETS, fused_rows, targets), (FUSED_STRIPS, fused_rows, of_fused))
    traces: list[Trace] = []
    for index, (network, end) in enumerate(zip(parents, np.cumsum(level.widths), strict=True)):
        neurons = slice(end - level.widths[index], end)
        colours = [hues[int(k)] for k in labels[neurons]]
        traces += _network(network, PARENTS, rows[neurons], colours, SHAPES[index], palette)
    traces += _network(fused, FUSED, fused_rows, list(hues.values()), SHAPES[2], palette)
    traces += [each for strip in strips for each in _strips(*strip, limit, columns, palette)]
    for j, k in enumerate(labels.tolist()):
        ends = (PARENT_STRIPS[1] + 4, TARGETS[0] - 4)
        traces.append(_curve(ends, (rows[j], heights[k]), hues[k], 1 + 5 * float(shares[j])))
    lost, more = (percent(100 * level.share(error)) for error in ("grouping", "approximation"))
    return picture_of(
        palette,
        traces,
        round(bottom + 44),
        "The method at one level, from left to right: networks, outputs, groups, targets, fit",
        f"{' and '.join(map(str, level.widths))} neurons in {level.width} groups: the groups' means lose {lost} "
        f"of what the neurons put out, the fit {more} more.",
        margin=(4, 4, 4, 4),
        xaxis={"visible": False, "range": [0, WIDTH]},
        yaxis={"visible": False, "range": [bottom + 40, 4]},
        annotations=_words(bottom, places, palette),
    )


def _network(
    network: Any, ends: tuple[int, int], first: Sequence[float], colours: Sequence[str], shape: str, palette: Palette
) -> list[Trace]:
    """A network from left to right: a mark for the image, its levels, lines whose width shows the weights."""
    weights = [tensor.detach().numpy() for tensor in network.state_dict().values() if tensor.ndim == 2]
    middle, reach = (max(first) + min(first)) / 2, (max(first) - min(first)) / 2
    xs = np.linspace(ends[0], ends[1], len(weights) + 1)
    ys = [np.array([middle]), *(np.linspace(middle - reach, middle + reach, len(weight)) for weight in weights)]
    ys[1] = np.array(first)
    traces = []
    for index, weight in enumerate(weights):
        size = np.linalg.norm(weight, axis=1, keepdims=True) if index == 0 else np.abs(weight)
        size = size / max(float(size.max()), 1e-12)
        for low, high in zip(SIZES, (*SIZES[1:], 1.01), strict=True):  # one trace per width: one per line is slow
            i, j = np.nonzero((size >= low) & (size < high))
            gaps = np.full(len(i), np.nan)
            x = np.stack([np.full(len(i), xs[index]), np.full(len(i), xs[index + 1]), gaps], 1)
            y = np.stack([ys[index][j], ys[index + 1][i], gaps], 1)
            colour = palette.muted if index == 0 else palette.line
            traces.append(_line(x.ravel(), y.ravel(), colour, 0.4 + 1.6 * low))
    looks: list[tuple[Any, int, Any, str]] = [
        ("square", 22, palette.paper, palette.ink),
        (shape, MARK, list(colours), palette.ink),
    ]
    looks += [(shape, 8, palette.paper, palette.muted)] * (len(ys) - 2)
    for index, (y, look) in enumerate(zip(ys, looks, strict=True)):
        words = {} if index else {"text": ["8×8"], "textfont": {"size": 10, "color": palette.muted}}
        mode = "markers" if index else "markers+text"
        traces.append(scatter([float(xs[index])] * len(y), y, mode, marker=mark(*look, width=1.2), **words))
    return traces


def _strips(
    ends: tuple[int, int],
    rows: Sequence[float],
    values: np.ndarray,
    limit: float,
    columns: Sequence[str],
    palette: Palette,
) -> list[Trace]:
    """One strip per neuron: a cell for each column, from `palette.grouping` (low) over the paper to the accent (high)."""
    shades = [[0, palette.grouping], [0.5, palette.paper], [1, palette.accent]]
    look = {"zmin": -limit, "zmax": limit, "colorscale": shades, "showscale": False, "text": [list(columns)]}
    tip = "class %{text}: %{z:.2f}<extra></extra>"
    x = np.linspace(ends[0], ends[1], values.shape[1] + 1).tolist()
    traces = []
    for row, strip in zip(rows, values, strict=True):
        low, high = row - STRIP / 2, row + STRIP / 2
        cells = {"type": "heatmap", "x": x, "y": [low, high], "z": [strip.round(3).tolist()], "hovertemplate": tip}
        frame = ([ends[0], ends[1], ends[1], ends[0], ends[0]], [low, low, high, high, low])
        traces += [{**cells, **look}, _line(*frame, palette.muted, 1)]
    return traces


def _line(x: Any, y: Any, colour: str, width: float) -> Trace:
    across, down = ([None if np.isnan(each) else round(float(each), 1) for each in values] for values in (x, y))
    return line(across, down, colour, width)


def _curve(ends: tuple[float, float], heights: tuple[float, float], colour: str, width: float) -> Trace:
    """A curve that is horizontal at both ends."""
    share = np.linspace(0, 1, 25)
    rise = share**2 * (3 - 2 * share)
    x, y = ends[0] + share * (ends[1] - ends[0]), heights[0] + rise * (heights[1] - heights[0])
    return _line(x, y, colour, width)


def _words(bottom: float, places: Sequence[float], palette: Palette) -> list[dict[str, Any]]:
    """Captions of the places, and of what happens between them."""
    heads = {
        PARENTS: "two networks",
        PARENT_STRIPS: "<b>1</b> what their<br>neurons put out",
        TARGETS: "<b>3</b> targets: the<br>groups' means",
        FUSED_STRIPS: "<b>4</b> outputs<br>after the fit",
        FUSED: "fused network",
    }
    notes = [note(words, (ends[0] + ends[1]) / 2, TOP - 30) for ends, words in heads.items()]
    notes.append(note("<b>2</b> groups", (PARENT_STRIPS[1] + TARGETS[0]) / 2, TOP - 30))
    notes.append(note("≈", (TARGETS[1] + FUSED_STRIPS[0]) / 2, float(np.mean(places)), font={"size": 26}))
    then = "then the next level, on the outputs of the fused network"
    return [*notes, note(then, WIDTH / 2, bottom + 22, palette.muted)]
