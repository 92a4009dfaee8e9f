"""How a level was fitted: loss over epochs, loss around the weights."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .diagnosis import AVERAGED, REPAIRED
from .drawing import BARE, axis, colour_key, edge, line, log_ticks, mark, picture_of, scatter
from .palette import HALO, SHAPES, VIRIDIS, Palette
from .picture import Picture
from .words import escaped, lettered, listing, number, percent

GRID = 61
RIDGE = "the ridge penalty on large weights keeps the fit away from it, so that it does not follow these few samples too closely."
#: Form -> why its fit is not at the lowest point.
SHORT = {
    "primal": RIDGE,
    "dual": RIDGE,
    "gradient": "gradient descent does not go all the way there: it keeps the weights that do best on the rows set aside.",
    REPAIRED: "repair stretches the targets until they vary as much as their neurons, and the fit follows the stretched ones.",
    AVERAGED: "nothing is fitted here: these weights are means of the parents' weights.",
}


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


def loss_plane(plane: dict[str, Any], palette: Palette, form: str = "primal") -> Picture:
    """The level's own loss on the plane through the fitted weights and two parents', with the loss of each.

    Args:
        plane: `LevelAnalysis.plane` with a "quadratic".
        form: see `residual_bars`.
    """
    marks = plane["marks"]
    xs, ys = np.array([mark["x"] for mark in marks]), np.array([mark["y"] for mark in marks])
    reach = 1.7 * max(float(np.abs(xs - xs.mean()).max()), float(np.abs(ys - ys.mean()).max()), 1e-9)
    x = np.linspace(xs.mean() - reach, xs.mean() + reach, GRID)
    y = np.linspace(ys.mean() - 0.8 * reach, ys.mean() + 0.8 * reach, GRID)
    c, gx, gy, hxx, hxy, hyy = plane["quadratic"]
    across, up = np.meshgrid(x, y)
    z = 100 * np.maximum(c + gx * across + gy * up + hxx * across**2 + hxy * across * up + hyy * up**2, 0)
    # Logarithmic steps: the valley matters, and its walls are a thousand times higher.
    low, high = (float(np.log10(max(float(end), 1e-4))) for end in (z.min(), z.max()))
    powers = [power for power in range(int(np.floor(low)), int(np.ceil(high)) + 1) if low - 0.3 <= power <= high + 0.3]
    contours = {
        "type": "contour",
        "x": x.tolist(),
        "y": y.tolist(),
        "z": np.log10(np.maximum(z, 1e-4)).tolist(),
        "customdata": z.tolist(),
        "colorscale": VIRIDIS,
        "reversescale": False,
        "contours": {"showlabels": False},
        "ncontours": 14,
        "line": edge("rgba(255,255,255,.55)", 0.6),
        "colorbar": colour_key(powers, [f"{10.0**power:g} %" for power in powers], palette),
        "hovertemplate": "loss %{customdata:.3g} % of the energy<extra></extra>",
    }
    named = [(lettered(each["name"]), _loss(each["loss"])) for each in marks]
    others = len(marks) - 1
    networks = scatter(
        xs,
        ys,
        "markers+text",
        "%{text}",
        cliponaxis=False,
        text=[f"<b>{name}</b> {loss}" for name, loss in named],
        textposition=["bottom center", *["top center"] * others],
        textfont=HALO,
        marker=mark(["star", *SHAPES[:others]], [16, *[12] * others], "#FFFFFF", "#000000", 1.5),
    )
    titles = [lettered(title).replace("towards ", "fused → ") for title in [*plane.get("axes", []), "", ""][:2]]
    finding = "Approximation error, in per cent of the neurons' energy: "
    finding += f"{listing([f'{name} {loss}' for name, loss in named])}."
    least = float(c + _lowest(plane["quadratic"]))
    if 100 * (c - least) > max(0.005, 0.01 * 100 * c):
        finding += f" The lowest on this plane is {_loss(max(least, 0.0))}; {SHORT.get(form, RIDGE)}"
    bare = {**BARE, "showticklabels": False}
    return picture_of(
        palette,
        [contours, networks],
        340,
        "Contours of the level's loss on a plane of its weights",
        finding,
        margin=(4, 4, 8, 46),
        xaxis=axis(titles[0], **bare),
        yaxis=axis(titles[1], automargin=True, **bare),
    )


def _lowest(quadratic: Sequence[float]) -> float:
    """The minimum of a convex quadratic without its constant; 0 if it has no lowest point."""
    _, gx, gy, hxx, hxy, hyy = quadratic
    curvature, slope = np.array([[2 * hxx, hxy], [hxy, 2 * hyy]]), np.array([gx, gy])
    if np.linalg.eigvalsh(curvature)[0] <= 1e-12 * max(float(np.abs(curvature).max()), 1e-300):
        return 0.0
    return float(-0.5 * slope @ np.linalg.solve(curvature, slope))


def _loss(share: float) -> str:
    value = 100 * share
    return f"{number(value, 2 if value < 10 else 1 if value < 100 else 0)}\N{NO-BREAK SPACE}%"
