"""The networks on a landscape's plane: marks with their own values, placed so that labels do not cover each other."""

import re
from collections.abc import Sequence
from typing import Any

from ..drawing import Trace, edge, scatter
from ..palette import HALO, SHAPES
from ..picture import percent
from .scale import Scale, frame
from .words import loss_words, short, values_words, who


def networks(survey: Any, kind: str, scale: Scale) -> list[Trace]:
    """A marker for each network with its own value beside it; hollow, with its distance, where it lies off the plane."""
    if not survey.markers:
        return []
    on_plane = [survey.is_on_plane(marker) for marker in survey.markers]
    texts = [
        f"<b>{short(marker.name)}</b> {values_words(kind, getattr(marker, kind))}"
        + ("" if on else f"<br>{loss_words(marker.distance)} off the plane")
        for marker, on in zip(survey.markers, on_plane, strict=True)
    ]
    hovers = [
        f"{who(marker.name)}: loss {loss_words(marker.loss)}, accuracy {percent(marker.accuracy)}"
        + ("" if on else f"<br>{loss_words(marker.distance)} off the plane, drawn at the nearest point of it")
        for marker, on in zip(survey.markers, on_plane, strict=True)
    ]
    marks = scatter(
        [marker.x for marker in survey.markers],
        [marker.y for marker in survey.markers],
        "markers+text",
        cliponaxis=False,
        text=texts,
        textposition=_positions(survey, texts, frame(survey, scale)),
        textfont=HALO,
        hovertext=hovers,
        hovertemplate="%{hovertext}<extra></extra>",
        marker={
            "symbol": [shape(marker.name) for marker in survey.markers],
            "opacity": 1,
            "size": [17 if marker.name == "fused" else 13 for marker in survey.markers],
            "color": ["#FFFFFF" if on else "rgba(0,0,0,.35)" for on in on_plane],
            "line": edge(["#000000" if on else "#FFFFFF" for on in on_plane], [1.5 if on else 2.5 for on in on_plane]),
        },
        unselected={"marker": {"opacity": 1}, "textfont": {"color": "#FFFFFF"}},
    )
    return [marks]


def shape(name: str) -> str:
    """Of a network's marker; an aligned parent has that of the parent."""
    if match := re.search(r"parent (\d+)", name):
        return SHAPES[int(match[1]) % len(SHAPES)]
    return {"fused": "star", "fine-tuned": "star-diamond"}.get(name, "cross")


def _positions(survey: Any, texts: Sequence[str], frame: tuple[float, float, float, float]) -> list[str]:
    """Where each label stands: where it covers neither another one nor a marker nor leaves the frame, as far as can be."""
    left, right, bottom, top = frame
    wide, high = 270.0, 300.0  # px of a picture on a telephone: what collides nowhere else may do so there
    centres = [((m.x - left) / (right - left) * wide, (m.y - bottom) / (top - bottom) * high) for m in survey.markers]
    taken = [(x - 8, y - 8, x + 8, y + 8) for x, y in centres]
    chosen = []
    for (x, y), text in zip(centres, texts, strict=True):
        lines = re.sub(r"</?b>", "", text).split("<br>")
        width, height = 7.4 * max(map(len, lines)), 18.0 * len(lines)
        boxes = {
            "bottom center": (x - width / 2, y - 10 - height, x + width / 2, y - 10),
            "top center": (x - width / 2, y + 10, x + width / 2, y + 10 + height),
            "middle right": (x + 12, y - height / 2, x + 12 + width, y + height / 2),
            "middle left": (x - 12 - width, y - height / 2, x - 12, y + height / 2),
        }
        if y > high / 2:  # above what lies above the middle, below what lies below
            boxes = {"top center": boxes.pop("top center"), **boxes}

        def price(box: tuple[float, float, float, float]) -> float:
            outside = max(-box[0], 0) + max(box[2] - wide, 0) + max(-box[1], 0) + max(box[3] - high, 0)
            return 40 * outside + sum(_overlap(box, other) for other in taken)

        best = min(boxes, key=lambda name: price(boxes[name]))
        taken.append(boxes[best])
        chosen.append(best)
    return chosen


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """The area that two boxes share."""
    across, up = min(one[2], other[2]) - max(one[0], other[0]), min(one[3], other[3]) - max(one[1], other[1])
    return max(across, 0.0) * max(up, 0.0)
