"""The networks on a landscape's plane: marks with their values, whose labels do not overlap."""

import re
from collections.abc import Sequence
from typing import Any

from ..drawing import Trace, mark, scatter
from ..palette import HALO, SHAPES
from ..placing import placed
from ..words import lettered, percent
from .scale import frame
from .words import loss_words, short, values_words


def networks(survey: Any, kind: str, hidden: bool) -> list[Trace]:
    """A marker for each network with its value; hollow, with its distance, if it is off the plane.

    Args:
        hidden: show names only.
    """
    if not survey.markers:
        return []
    on_plane = [survey.is_on_plane(marker) for marker in survey.markers]
    off = [
        "" if on or hidden else f"<br>{loss_words(m.distance)} off the plane"
        for m, on in zip(survey.markers, on_plane, strict=True)
    ]
    texts = [
        f"<b>{short(marker.name)}</b>" + ("" if hidden else f" {values_words(kind, getattr(marker, kind))}") + where
        for marker, where in zip(survey.markers, off, strict=True)
    ]
    tips = [
        lettered(marker.name)
        + ("" if hidden else f": loss {loss_words(marker.loss)}, accuracy {percent(marker.accuracy)}")
        + (f"{where}, drawn at the nearest point of it" if where else "")
        for marker, where in zip(survey.markers, off, strict=True)
    ]
    marks = scatter(
        [marker.x for marker in survey.markers],
        [marker.y for marker in survey.markers],
        "markers+text",
        tips,
        cliponaxis=False,
        text=texts,
        textposition=_positions(survey, texts, frame(survey)),
        textfont=HALO,
        marker=mark(
            [shape(marker.name) for marker in survey.markers],
            [17 if marker.name == "fused" else 13 for marker in survey.markers],
            ["#FFFFFF" if on else "rgba(0,0,0,.35)" for on in on_plane],
            ["#000000" if on else "#FFFFFF" for on in on_plane],
            [1.5 if on else 2.5 for on in on_plane],
        ),
    )
    return [marks]


def shape(name: str) -> str:
    """The shape of a network's marker; an aligned parent has its parent's."""
    if match := re.search(r"parent (\d+)", name):
        return SHAPES[int(match[1]) % len(SHAPES)]
    return {"fused": "star", "fine-tuned": "star-diamond"}.get(name, "cross")


def _positions(survey: Any, texts: Sequence[str], frame: tuple[float, float, float, float]) -> Sequence[str]:
    """Each label's position: if possible inside the frame and clear of other labels and markers."""
    left, right, bottom, top = frame
    wide, high = 270.0, 300.0  # px, a picture on a phone, where labels collide first
    centres = [((m.x - left) / (right - left) * wide, (m.y - bottom) / (top - bottom) * high) for m in survey.markers]
    choices = []
    for (x, y), text in zip(centres, texts, strict=True):
        lines = re.sub(r"</?b>", "", text).split("<br>")
        width, height = 7.4 * max(map(len, lines)), 18.0 * len(lines)
        boxes = {
            "bottom center": (x - width / 2, y - 10 - height, x + width / 2, y - 10),
            "top center": (x - width / 2, y + 10, x + width / 2, y + 10 + height),
            "middle right": (x + 12, y - height / 2, x + 12 + width, y + height / 2),
            "middle left": (x - 12 - width, y - height / 2, x - 12, y + height / 2),
        }
        # Markers above the middle prefer labels above, the others below.
        choices.append(boxes if y <= high / 2 else {"top center": boxes.pop("top center"), **boxes})
    marks = [(x - 8, y - 8, x + 8, y + 8) for x, y in centres]
    return placed(marks, choices, (0, 0, wide, high))
