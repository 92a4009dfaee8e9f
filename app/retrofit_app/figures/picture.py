"""A figure with its texts: in a notebook, signed for a file, enlarged for a projector."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go
from plotly.utils import PlotlyJSONEncoder

from .palette import CONFIG, TEXT, Palette
from .words import escaped


@dataclass(frozen=True)
class Picture:
    """A figure with its texts."""

    figure: go.Figure
    alt: str
    caption: str = ""
    key: str = ""
    """A legend as HTML, for a figure on its own"""

    title: str = ""
    """For where no page's heading stands above the figure"""

    def _ipython_display_(self) -> None:
        """In a notebook: the finding, the figure for JupyterLab's offline Plotly renderer, and the legend."""
        from IPython.display import HTML, Markdown, display

        if self.caption:
            display(Markdown(f"**{escaped(self.caption)}**"))
        whole = {**self.figure.to_plotly_json(), "config": {**CONFIG, "responsive": True}}
        plain = json.loads(json.dumps(whole, cls=PlotlyJSONEncoder))
        _head(plain["layout"], self.title)
        display({"application/vnd.plotly.v1+json": plain, "text/plain": self.alt}, raw=True)
        if self.key:  # on the figure's background, whatever the page's theme
            ground = plain["layout"]["template"]["layout"]["paper_bgcolor"]
            display(HTML(f"<div style='background:{ground};padding:4px 8px'>{self.key}</div>"))


HEADED, HEAD = 100, 22  # letters of a line of a title in a notebook, and its height in px


def _head(layout: dict[str, Any], title: str) -> None:
    """Puts a title above a figure, which grows by it."""
    lines = wrap(title, HEADED)
    if not lines:
        return
    room = 10 + HEAD * len(lines)
    layout["height"] += room
    layout["margin"]["t"] += room
    place = {"x": 0, "xref": "container", "xanchor": "left", "y": 1, "yref": "container", "yanchor": "top"}
    text = "<br>".join(map(escape, lines))
    layout["title"] = {
        "text": f"<b>{text}</b>",
        **place,
        "automargin": False,
        "pad": {"l": 6, "t": 8 if len(lines) == 1 else 19},
        "font": {"size": TEXT},
    }


SIGNATURE = 28  # px: two lines below the axes
LECTURE = 18 / TEXT  # how much larger text is on a projector


def sign(figure: go.Figure, lines: Sequence[str], palette: Palette) -> go.Figure:
    """The figure with a note on its origin at its foot, in lines that fit a width of 300 px; its height grows by them.

    Plain dictionaries, because Plotly's validation would take longer than all else that a page does for a picture.
    """
    whole = figure.to_plotly_json()
    layout, margin = whole["layout"], whole["layout"]["margin"]
    title = {
        "text": "<br>".join(lines),
        "font": {"size": 10, "color": palette.muted},
        "automargin": False,
        "x": 0,
        "xref": "container",
        "xanchor": "left",
        "y": 0,
        "yref": "container",
        "yanchor": "bottom",
        "pad": {"l": 4, "b": 17},
    }  # Plotly puts the first line here, and the second below
    room = {"height": layout["height"] + SIGNATURE, "margin": {**margin, "b": margin["b"] + SIGNATURE}}
    if layout.get("legend", {}).get("yref") == "container":  # move it from the foot to above the note
        room["legend"] = {**layout["legend"], "y": SIGNATURE / room["height"]}
    return go.Figure({**whole, "layout": {**layout, **room, "title": title}}, _validate=False)


def enlarged(picture: Picture, height: int, ratio: float = 1.0) -> Picture:
    """The picture for a projector: text, marks and margins grow, in a figure of a given height.

    Args:
        ratio: how much larger everything is than on a page of 720 px.
    """
    whole = picture.figure.to_plotly_json()
    _grow(whole, LECTURE * ratio)
    margins = {side: round(room * LECTURE * ratio) for side, room in whole["layout"].get("margin", {}).items()}
    whole["layout"].update(height=height, margin=margins)
    return replace(picture, figure=go.Figure(whole, _validate=False))


def _grow(part: Any, ratio: float) -> None:
    """Enlarge all text, marks, lines and distances of titles from axes in a part of a figure."""
    if isinstance(part, dict):
        for name, inner in part.items():
            if name.endswith("font") and isinstance(inner, dict):
                _stretch(inner, "size", ratio)
            elif name in ("marker", "line") and isinstance(inner, dict):
                _stretch(inner, "size" if name == "marker" else "width", ratio)
                _grow(inner, ratio)
            elif name == "standoff":
                _stretch(part, name, ratio)
            else:
                _grow(inner, ratio)
    elif isinstance(part, list | tuple) and part and isinstance(part[0], dict):
        for inner in part:
            _grow(inner, ratio)


def _stretch(part: dict[str, Any], name: str, ratio: float) -> None:
    size = part.get(name)
    if isinstance(size, int | float):
        part[name] = round(size * ratio, 1)
    elif isinstance(size, list | tuple):
        part[name] = [round(each * ratio, 1) for each in size]
